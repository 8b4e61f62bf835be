"""Objects of libraries that are recognised once the program has imported them."""

from __future__ import annotations

import sys


def is_picture(value: object) -> bool:
    """Whether this is a PIL image."""
    return _is(value, "PIL.Image", "Image")


def is_tensor(value: object) -> bool:
    """Whether this is a torch tensor."""
    return _is(value, "torch", "Tensor")


def is_ndarray(value: object) -> bool:
    """Whether this is a NumPy array."""
    return _is(value, "numpy", "ndarray")


def is_array(value: object) -> bool:
    """Whether this is a NumPy array or a torch tensor."""
    return is_ndarray(value) or is_tensor(value)


def _is(value: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


__all__ = ["is_array", "is_ndarray", "is_picture", "is_tensor"]
