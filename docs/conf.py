"""How the pages are built: `make docs`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "src"))

project = "colspace"
author = "The colspace developers"
copyright = author
version = re.search(r'__version__ = "(.+)"', (HERE.parent / "src/colspace/__init__.py").read_text())[1]  # type: ignore[index]
release = version

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = [
    "_build",
    "images",
    "conftest.py",
    "links.py",
    "gallery/*.py",
    "gallery/*.ipynb",
    "gallery/*.md5",
]
templates_path = ["_templates"]
root_doc = "index"
highlight_language = "none"
default_role = "literal"
nitpicky = False

# ---------------------------------------------------------------------- pages

myst_enable_extensions = ["colon_fence", "attrs_block", "attrs_inline"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4

html_theme = "pydata_sphinx_theme"
html_title = "colspace"
html_static_path = ["_static"]
html_css_files = ["colspace.css"]
html_favicon = "_static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "logo": {"text": "colspace", "image_light": "_static/favicon.svg", "image_dark": "_static/favicon.svg"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "a11y-dark",
}
html_context = {"default_mode": "auto"}  # as the system has it; without it the theme complains
html_sidebars = {page: [] for page in ("index", "start", "which", "compare")}

# ---------------------------------------------------------------------- reference

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# ---------------------------------------------------------------------- gallery

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\d\d_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("colspace",),
    "min_reported_time": 0,
    "write_computation_times": False,
}


def mathml(formula: str, block: bool) -> str:
    """A formula as MathML, which browsers draw without scripts or a network."""
    from docutils.utils.math import MathError
    from docutils.utils.math.latex2mathml import tex2mathml
    from sphinx.util.logging import getLogger

    plainer = re.sub(r"\\([bB]ig)(?![a-z])", r"\\\1l", formula).replace(r"\dots", r"\ldots")
    try:
        return tex2mathml(plainer, as_block=block)
    except MathError as error:
        getLogger(__name__).warning("%s in the formula %s", error, formula)
        return f"<code>{formula}</code>"


def _inline(self: Any, node: Any) -> None:
    from docutils import nodes

    self.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _display(self: Any, node: Any) -> None:
    from docutils import nodes

    self.body.append(f'<div class="formula">{mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


BOOK = """
```{toctree}
:glob:

reproduction/index
reproduction/paper-*
```
"""


def bind_book(app: Any, docname: str, source: list[str]) -> None:
    """Add the pages that `colspace reproduce --all --out docs/reproduction` writes, where there are any."""
    if docname == "book" and (HERE / "reproduction" / "index.md").exists():
        source[0] += BOOK


QUOTED = re.compile(r"(``.+?``|:\w+:`[^`]*`|`[^`]*`_?|\*\*.+?\*\*)")


def plain_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Write |x| and names such as ``coef_`` so that they are not read as references."""
    skip = -1  # indentation of a formula or an example whose lines stay as they are
    for i, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if skip >= 0 and (not line.strip() or depth > skip):
            continue
        skip = depth if re.match(r"\s*(\.\. math::|.*::$)", line) else -1
        if re.match(r"\s*(\.\.|>>>|\.\.\. |:\w+)", line):
            continue
        parts = QUOTED.split(line)
        for j in range(0, len(parts), 2):
            parts[j] = re.sub(r"(?<!\\)\|", r"\\|", parts[j])
            parts[j] = re.sub(r"(?<=\w)(?<!\\)_(?!\w)", r"\\_", parts[j])
        lines[i] = "".join(parts)


def setup(app: Any) -> None:
    """Register the renderer of formulas and what docstrings need."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.connect("source-read", bind_book)
    app.connect("autodoc-process-docstring", plain_bars, priority=600)
