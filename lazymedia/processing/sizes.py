"""How large a picture becomes inside a processor, computed from its size and the settings alone.

A processor that brings the shorter side to 336 pixels makes 1.8 thousand million pixels out of a strip of 1 x 16,384,
and a request that may choose sizes can ask for more. So the cost is known before it is spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

SIZES: Final = ("size", "crop_size", "pad_size")
"""Settings that are sizes: mappings with some of the keys that Hugging Face's ``SizeDict`` has."""
SIZE_OPTIONS: Final = frozenset(
    {*SIZES, "max_image_size", "max_pixels", "max_patches", "max_num_patches", "max_image_tiles", "min_pixels"}
)
"""Options by which a picture may become large inside a processor."""


def settings_in_force(part: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a part of a processor under a request's options; sizes as mappings without empty keys.

    Raises:
        ValueError: A size that is none: unknown keys, or not a positive whole number.
        TypeError: A size of the wrong type.
    """
    names = getattr(getattr(part, "valid_kwargs", None), "__annotations__", {})
    settings = {name: getattr(part, name, None) for name in names} | dict(options)
    standardize = getattr(part, "_standardize_kwargs", None)
    if standardize is not None:
        sizes = {name: settings.get(name) for name in (*SIZES, "default_to_square")}
        settings |= {name: value for name, value in standardize(**sizes).items() if name in SIZES}
    for name in SIZES:
        size = settings.get(name)
        if size is not None:
            settings[name] = {key: value for key, value in dict(size).items() if value is not None}
            for key, value in settings[name].items():
                if not isinstance(value, int) or value < 1:
                    raise ValueError(f"{name}: {key} must be a positive whole number")
    return settings


def working_pixels(height: int, width: int, settings: Mapping[str, Any]) -> int:
    """Pixels of the largest picture on the way from (height, width) through resizing, cropping and padding."""
    steps = [(height, width)]
    if settings.get("do_resize") and settings.get("size"):
        steps.append(resized(height, width, settings["size"]))
    for flag, name in (("do_center_crop", "crop_size"), ("do_pad", "pad_size")):
        if settings.get(flag) and settings.get(name):
            steps.append(resized(*steps[-1], settings[name]))
    return largest(steps)


def largest(steps: Sequence[tuple[int, int]]) -> int:
    """Pixels of the largest picture in a chain of pictures, each (height, width) made from the one before.

    Pillow and torchvision resize the width first and the height after it, so between two steps stands a picture with
    the height of one and the width of the other. It exceeds both where an option distorts a picture.
    """
    sizes = [*steps, *((max(a[0], b[0]), max(a[1], b[1])) for a, b in pairwise(steps))]
    return max(rows * columns for rows, columns in sizes)


def resized(height: int, width: int, size: Mapping[str, int]) -> tuple[int, int]:
    """(height, width) after resizing to a size in any of the forms that Hugging Face has, but for roundings."""
    shorter, longer = min(height, width), max(height, width)
    match dict(size):
        case {"shortest_edge": short, "longest_edge": long}:
            scale = min(short / shorter, long / longer)
        case {"shortest_edge": short}:
            scale = short / shorter
        case {"longest_edge": long}:
            scale = long / longer
        case {"max_height": most_rows, "max_width": most_columns}:
            scale = min(most_rows / height, most_columns / width)
        case {"height": rows, "width": columns}:
            return rows, columns
        case {"max_pixels": most}:
            scale = min(1.0, (most / (height * width)) ** 0.5)
        case _:
            return height, width
    return max(1, round(height * scale)), max(1, round(width * scale))


__all__ = ["SIZES", "largest", "resized", "settings_in_force", "working_pixels"]
