"""A decoder under an operator's options and a request's.

Comes in: a class of decoder and both sides' options. Goes out: a decoder, or whose fault it is that there is none.
Never here: which class a modality has, or a decode.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.io import MediaIO


def make_decoder(
    kind: type[MediaIO[Any]],
    modality: str,
    limits: Limits,
    operator: Mapping[str, Any] | None,
    request: Mapping[str, Any] | None,
) -> MediaIO[Any]:
    """A decoder; the request's options win over the operator's.

    Raises:
        UnprocessableMediaError: An option of the request that there is none of, that is the operator's, or that has no
            such value. The client's fault.
        TypeError, ValueError: An option of the operator's that cannot be used. The operator's fault.
    """
    runtime = dict(request or {})
    refused = sorted(str(name)[:64] for name in runtime if name == "limits" or not _takes(kind, name))
    if refused:
        raise UnprocessableMediaError(
            f"decoder options: {', '.join(refused)} cannot be chosen for {modality}", modality=modality
        )
    merged = {"limits": limits} | kind.merge_kwargs(operator, runtime)
    try:
        return kind(**merged)
    except UnprocessableMediaError:
        raise
    except (TypeError, ValueError) as exc:
        if not runtime:
            raise
        raise UnprocessableMediaError(
            f"decoder options: {', '.join(sorted(runtime))} of {modality}: {exc}", modality=modality
        ) from exc


def _takes(kind: type, name: object) -> bool:
    parameters = inspect.signature(kind).parameters
    return name in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


__all__ = ["make_decoder"]
