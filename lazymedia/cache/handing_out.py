"""How arrays and tensors leave a cache so that nothing done to them reaches what is held.

Comes in: named arrays. Goes out: NumPy arrays as read-only views, torch tensors as clones (torch has no read-only
tensor). Never here: an import of torch; tensors are recognised once somebody else has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def handed_out(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays in a form through which a caller cannot change them. What is neither array nor tensor passes as it
    is.
    """
    torch = sys.modules.get("torch")
    return {name: _safe(array, torch) for name, array in arrays.items()}


def _safe(array: Any, torch: Any) -> Any:
    if torch is not None and isinstance(array, torch.Tensor):
        return array.clone()
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.ndarray):
        view = array.view()
        view.flags.writeable = False
        return view
    return array


__all__ = ["handed_out"]
