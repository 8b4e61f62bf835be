"""A JPEG of twelve megapixels to an RGB array: lazymedia, Pillow and simplejpeg."""

from __future__ import annotations

import io
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.measure import cost_rows, heading, in_rounds, optional, ratio
from lazymedia.cli.show import table
from lazymedia.media.image import ImageMediaIO

PILLOW = "Pillow"


def by_pillow(data: bytes) -> Any:
    """An array (H, W, 3)."""
    with Image.open(io.BytesIO(data)) as opened:
        return np.asarray(opened.convert("RGB"))


def run(arguments: Namespace) -> None:
    """The table."""
    data = arguments.media.picture().read_bytes()
    load = ImageMediaIO(output="array").load_bytes
    rows: dict[str, Callable[[], object]] = {"lazymedia": partial(load, data), PILLOW: partial(by_pillow, data)}
    simplejpeg = optional("simplejpeg")
    if simplejpeg is not None:
        rows["simplejpeg"] = partial(simplejpeg.decode_jpeg, data, "RGB")
    in_rounds(rows, 1)
    rounds = in_rounds(rows, arguments.rounds)
    title = f"a JPEG of {'a tenth of a megapixel' if arguments.media.quick else 'twelve megapixels'} to an array"
    missing = [] if simplejpeg is not None else ["simplejpeg"]
    print(table([heading(title, PILLOW), *cost_rows(rounds, PILLOW, missing)]))
    same = np.array_equal(np.asarray(load(data)), by_pillow(data))
    print(f"pixels equal to Pillow's: {'yes' if same else 'NO'}\n")
    targets = arguments.targets
    targets.at_most("the JPEG to an array, by Pillow's, wall", ratio(rounds, "lazymedia", PILLOW, "wall"), 0.6)
