"""Draw the pictures of the README and of the guide again: `python docs/images/make.py` (`make pictures`).

They are figures of the gallery, so that what is shown is what runs. Colours are reduced, so that each file is small.
"""

from __future__ import annotations

import argparse
import io
import os
import runpy
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from PIL import Image

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"

#: picture: example and number of its figure
PICTURES = {
    "joint.png": ("01_two_omics_tables.py", 1),
    "copula.png": ("02_survey_with_gaps.py", 2),
    "topics.png": ("03_topics_of_texts.py", 1),
    "pairs.png": ("04_drugs_and_diseases.py", 1),
    "classics.png": ("10_classics.py", 1),
    "dictionary.png": ("11_digits_in_parts.py", 1),
    "stein.png": ("15_many_responses.py", 1),
}


def draw(name: str) -> None:
    """Run an example and save one of its figures."""
    example, number = PICTURES[name]
    plt.close("all")
    runpy.run_path(str(EXAMPLES / example))
    buffer = io.BytesIO()
    plt.figure(number).savefig(buffer, dpi=110)
    Image.open(buffer).convert("RGB").quantize(160).save(HERE / name, optimize=True)
    print(f"{name}: {(HERE / name).stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PICTURES))
    for picture in parser.parse_args().names:
        draw(picture)
