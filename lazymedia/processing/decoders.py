"""A decoder under the options of a model, an operator and a request.

Comes in: a modality, a class of decoder, all sides' options. Goes out: a decoder, or whose fault it is that there is
none. Never here: a decode.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.io import MediaIO

_DECODERS: Final = {
    "image": "lazymedia.media.image:ImageMediaIO",
    "video": "lazymedia.media.video:VideoMediaIO",
    "audio": "lazymedia.media.audio:AudioMediaIO",
}


def decoder_class(modality: str) -> type[MediaIO[Any]]:
    """The decoder of lazymedia's own for a modality.

    Raises:
        KeyError: It has none.
    """
    module, _, name = _DECODERS[modality].partition(":")
    kind: type[MediaIO[Any]] = getattr(import_module(module), name)
    return kind


def make_decoder(
    kind: type[MediaIO[Any]],
    modality: str,
    limits: Limits,
    operator: Mapping[str, Any] | None,
    request: Mapping[str, Any] | None,
    model: Mapping[str, Any] | None = None,
) -> MediaIO[Any]:
    """A decoder; the request's options win over the operator's, and those over what the model's processor asks for.

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
    merged = {"limits": limits} | kind.merge_kwargs(_layered(kind, model or {}, operator or {}), runtime)
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


def _layered(kind: type[MediaIO[Any]], model: Mapping[str, Any], operator: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's options over the model's, merged as a request's would be, but for those that no request has."""
    own = {name: value for name, value in operator.items() if name in kind.operator_only}
    return kind.merge_kwargs(model, {name: operator[name] for name in operator.keys() - own.keys()}) | own


def _takes(kind: type, name: object) -> bool:
    parameters = inspect.signature(kind).parameters
    return name in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


__all__ = ["decoder_class", "make_decoder"]
