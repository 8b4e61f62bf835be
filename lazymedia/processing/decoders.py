"""A decoder under the options of a model, an operator and a request.

An option of the operator's that cannot be used is never reported as the fault of the client whose request is built.
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
    rejected = sorted(str(name)[:64] for name in runtime if name == "limits" or not _takes(kind, name))
    if rejected:
        raise UnprocessableMediaError(
            f"decoder options: {', '.join(rejected)} cannot be chosen for {modality}", modality=modality
        )
    defaults = {"limits": limits} | _layered(kind, model or {}, operator or {})
    merged = kind.merge_kwargs(defaults, runtime)
    try:
        return kind(**merged)
    except (TypeError, ValueError) as exc:
        _check_defaults(kind, defaults)
        if isinstance(exc, UnprocessableMediaError):
            raise
        raise UnprocessableMediaError(
            f"decoder options: {', '.join(sorted(runtime))} of {modality}: {exc}", modality=modality
        ) from exc


def _check_defaults(kind: type[MediaIO[Any]], defaults: Mapping[str, Any]) -> None:
    """Raise what the options of the operator and the model cause without a request's.

    Raises:
        TypeError, ValueError: They cannot be used. Never an error of a client.
    """
    try:
        kind(**defaults)
    except UnprocessableMediaError as exc:
        raise ValueError(f"decoder options of the operator: {exc}") from exc


def _layered(kind: type[MediaIO[Any]], model: Mapping[str, Any], operator: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's options over the model's.

    They are merged as a request's options are, so that a number of frames replaces the model's rate. What a request may
    not choose does not apply: arguments in `MediaIO.operator_only` are left out of the merge, and the operator's values
    are among the defaults too, as some decoders accept certain values only where the defaults have them.
    """
    own = {name: value for name, value in operator.items() if name in kind.operator_only}
    chosen = {name: value for name, value in operator.items() if name not in own}
    return kind.merge_kwargs({**chosen, **model}, chosen) | own


def _takes(kind: type, name: object) -> bool:
    parameters = inspect.signature(kind).parameters
    return name in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


__all__ = ["decoder_class", "make_decoder"]
