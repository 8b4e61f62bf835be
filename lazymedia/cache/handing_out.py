"""How arrays leave a cache: NumPy arrays as read-only views, torch tensors shared or as clones.

torch has no read-only tensor, so shared ones are documented as not to be written to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lazymedia.foreign import is_ndarray, is_tensor


def handed_out(arrays: Mapping[str, Any], *, share_tensors: bool = True) -> dict[str, Any]:
    """The arrays in a form for callers. What is neither array nor tensor passes as it is.

    Args:
        arrays: By name.
        share_tensors: Do not clone tensors: a caller that writes into one then changes what the cache holds.
    """
    return {name: array if share_tensors and is_tensor(array) else _safe(array) for name, array in arrays.items()}


def _safe(array: Any) -> Any:
    if is_tensor(array):
        return array.clone()
    if is_ndarray(array):
        view = array.view()
        view.flags.writeable = False
        return view
    return array


__all__ = ["handed_out"]
