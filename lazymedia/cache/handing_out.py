"""How arrays and tensors leave a cache so that nothing done to them reaches what is held.

Comes in: named arrays. Goes out: NumPy arrays as read-only views, torch tensors as clones (torch has no read-only
tensor). Never here: an import of torch; tensors are recognised once somebody else has imported it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lazymedia.foreign import is_ndarray, is_tensor


def handed_out(arrays: Mapping[str, Any], *, share_tensors: bool = False) -> dict[str, Any]:
    """The arrays in a form through which a caller cannot change them. What is neither array nor tensor passes as it is.

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
