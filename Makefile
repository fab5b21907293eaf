PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt
INPUTS := pyproject.toml constraints.txt src/colspace/__init__.py

.PHONY: demo test fuzz lint docs pictures bench clean

demo: $(VENV)/demo.stamp
	$(BIN)/colspace demo --out demo

test: $(VENV)/test.stamp lint
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

fuzz: $(VENV)/test.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/robustness/fuzz.py --inputs 10000

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs docs/_build/html
	$(BIN)/python docs/links.py docs/_build/html
	$(BIN)/python -m pytest -q tests/browser/test_docs_pages.py
	@echo "pages are in docs/_build/html/index.html"

pictures: $(VENV)/docs.stamp
	$(BIN)/python docs/images/make.py
	$(BIN)/python docs/images/house.py

bench: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/joint.py
	$(BIN)/python benchmarks/stein.py
	$(BIN)/python benchmarks/copula.py
	$(BIN)/python benchmarks/dictionary.py
	$(BIN)/python benchmarks/pairs.py
	$(BIN)/python benchmarks/real_tables.py
	$(BIN)/python benchmarks/several_blocks.py
	$(BIN)/python benchmarks/component_count.py
	$(BIN)/python benchmarks/error_bars.py
	$(BIN)/python benchmarks/dask_scale.py

clean:
	rm -rf $(VENV) demo docs/_build docs/gallery docs/generated

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "colspace needs Python 3.11 or newer; run: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) pip

$(VENV)/demo.stamp: $(BIN)/python $(INPUTS)
	$(INSTALL) -e '.[cli,plot,report]'
	touch $@

$(VENV)/test.stamp: $(VENV)/demo.stamp
	$(INSTALL) -e '.[all,torch]' --group test
	touch $@

$(VENV)/docs.stamp: $(VENV)/demo.stamp
	$(INSTALL) -e '.[all]' --group docs
	touch $@

$(VENV)/bench.stamp: $(VENV)/test.stamp
	$(INSTALL) --group bench
	touch $@
