"""A tensor with a shape and no values: what runs on it finds out the shapes of its results, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import torch
from torch.utils import _pytree as pytree


class ShapeOnly(torch.Tensor):
    """A tensor of the CPU without memory behind it. Make one with `of`.

    Operations on it run on torch's meta device, which computes shapes. Other tensors, such as a processor makes of a
    picture's size, keep their values. Values that would depend on this one are refused by torch (NotImplementedError);
    as a NumPy array it is all 0.
    """

    _meta: torch.Tensor

    @classmethod
    def of(cls, *shape: int, dtype: torch.dtype = torch.uint8) -> Self:
        """A contiguous one of this shape."""
        return cls._wrapped(torch.empty(shape, dtype=dtype, device="meta"))

    @classmethod
    def _wrapped(cls, meta: torch.Tensor) -> Self:
        made: Self = torch.Tensor._make_wrapper_subclass(  # noqa: SLF001  # as torch's documentation of subclasses has it
            cls, meta.shape, strides=meta.stride(), dtype=meta.dtype, device=torch.device("cpu")
        )
        made._meta = meta
        return made

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in (torch.Tensor.numpy, torch.Tensor.__array__):
            shape_only = args[0]
            return np.broadcast_to(torch.empty(0, dtype=shape_only.dtype).numpy().dtype.type(0), shape_only.shape)
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # in torch it is no method
        cls, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        # What asks for the device of this one asks for the CPU.
        on_meta = {**(kwargs or {}), **({"device": "meta"} if (kwargs or {}).get("device") is not None else {})}
        args, on_meta = pytree.tree_map(_to_meta, (args, on_meta))
        return pytree.tree_map(_from_meta, func(*args, **on_meta))


def _to_meta(value: Any) -> Any:
    if isinstance(value, ShapeOnly):
        return value._meta  # noqa: SLF001  # this module's own class
    return value.to("meta") if isinstance(value, torch.Tensor) and value.dim() else value


def _from_meta(value: Any) -> Any:
    return ShapeOnly._wrapped(value) if isinstance(value, torch.Tensor) else value  # noqa: SLF001


__all__ = ["ShapeOnly"]
