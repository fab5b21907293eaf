"""Reference similarity from scikit-image: ``python tests/reference/make_ssim.py`` writes ssim.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

SEED = 20240602
SIDE = 11


def make_images(seed: int = SEED) -> tuple[Any, Any]:
    """A square image of an odd side and a noisy copy of it, pixels in 0..255."""
    rng = np.random.default_rng(seed)
    image = rng.uniform(0, 255, (SIDE, SIDE))
    return image, np.clip(0.8 * image + 20 + 30 * rng.standard_normal((SIDE, SIDE)), 0, 255)


def main() -> None:
    """One flat window as large as the image, divisor N: only the central pixel has a whole window, and it is all."""
    import skimage
    from skimage.metrics import structural_similarity

    image, other = make_images()
    value = structural_similarity(
        image, other, win_size=SIDE, data_range=255, gaussian_weights=False, use_sample_covariance=False
    )
    out = {"seed": SEED, "side": SIDE, "scikit-image": skimage.__version__, "ssim": float(value)}
    Path(__file__).with_name("ssim.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
