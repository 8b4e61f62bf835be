"""Every error that lazymedia raises on purpose, and nothing else.

The tree (status hint, retryable):

* LazyMediaError
    * BadUrlError (400; ValueError)                 the text of a URL cannot be used
    * BadRequestError (400; ValueError)             a request that contradicts itself
    * NotAllowedError (403; PermissionError)        policy rejects it; one text for every reason
    * PayloadTooLargeError (413; ValueError)        more encoded bytes than a limit allows
    * UnprocessableMediaError (422; ValueError)     the media: undecodable, over a limit, rejected by their server
    * DecoderCrashedError (500; RuntimeError)       a decoder failed in a way no payload may cause
    * OverlapError (500; RuntimeError)              two phases ran at once: a bug in lazymedia, made visible
    * ReleasedError (500; RuntimeError)             a reference was used after its payload had been given up
    * NotPlannableError (501; NotImplementedError)  an item whose tokens its header does not determine
    * UpstreamError (502; ConnectionError; retry)   the other server is broken or cannot be reached
    * OverloadedError (503; RuntimeError; retry)    not now: shutting down or out of capacity
    * CacheMissError (503; KeyError; retry)         an item named without media is not in the cache
    * CacheDriftError (503; RuntimeError; retry)    two caches that mirror each other no longer agree
    * FetchTimeoutError (504; TimeoutError; retry)  the total deadline of a fetch has passed

Each also inherits the builtin in brackets, so that ``except ValueError`` and the like go on working.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, Self

from lazymedia.public import publish

MAX_TEXT = 300
"""Characters that an error's text has at most."""

_SCRUBBERS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bdata:[^,\s]*,\S*", re.IGNORECASE), "<data>"),
    (re.compile(r"\b([a-zA-Z][a-zA-Z0-9+.-]*)://\S+"), r"<\1 url>"),
    (re.compile(r"\S*[?&][\w.-]+=\S+"), "<query>"),
    (re.compile(r"\bb(['\"])(?:(?!\1).){16,}.*", re.DOTALL), "<bytes>"),  # to the end: quotes may stand inside
    (re.compile(r"(['\"])(?:[/~]|\.{1,2}[/\\]|[A-Za-z]:[/\\]|\\\\)[^'\"]*\1"), "<path>"),
    (re.compile(r"<([\w.]+)( object)? at 0x[0-9a-fA-F]+>"), r"<\1>"),
    (re.compile(r"0x[0-9a-fA-F]{4,}"), "0x..."),
    (re.compile(r"\b[A-Za-z]:\\\S+"), "<path>"),
    (re.compile(r"(?<!\w)(?:~|\.{1,2})?/[^\s'\",;)>]+"), "<path>"),
    (re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}"), "<data>"),
    (re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)"), "<address>"),
    (re.compile(r"\[?(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?:%\w+)?\]?"), "<address>"),
    (re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+"), " "),  # surrogates have no UTF-8
)


def text_of(error: BaseException) -> str:
    """What an exception says, or its class where it cannot even say that."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001  # a class from outside
        return type(error).__name__


def scrub(text: str) -> str:
    """Take out of a foreign text what a client must not see, and cut it to `MAX_TEXT` characters.

    Goes: payloads, URLs behind their scheme, heap addresses, absolute paths, IP addresses, control characters, halves
    of surrogate pairs (an answer in UTF-8 cannot hold them). Decoders of every kind put such things into their
    messages, and a heap address defeats address space randomisation.
    """
    text = text[: 8 * MAX_TEXT]
    for pattern, replacement in _SCRUBBERS:
        text = pattern.sub(replacement, text)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."


class LazyMediaError(Exception):
    """Any error that lazymedia raises on purpose. Its text is fit for a client (see `scrub`).

    Attributes:
        status_hint: The HTTP status a server would answer with, or None.
        retryable: Whether the same request may succeed later.
        modality: ``"image"``, ``"video"``, ``"audio"``, or None where no item is at fault.
        index: The item's position within its modality in the original request, or None where not yet known.
    """

    status_hint: ClassVar[int | None] = None
    retryable: bool = False

    def __init__(self, message: str = "", *, modality: str | None = None, index: int | None = None) -> None:
        super().__init__(scrub(message))
        self.modality = modality
        self.index = index

    def at(self, modality: str, index: int) -> Self:
        """The same error with the place where it happened, and this one as its cause; where the item is first known."""
        located = self._retold(f"{modality} at index {index}: {text_of(self)}")
        located.modality, located.index = modality, index
        located.__cause__ = self
        return located

    def _retold(self, text: str) -> Self:
        """The same error under another text, without a cause."""
        retold = type(self).__new__(type(self))  # a subclass may be made of anything
        retold.__dict__.update(vars(self))
        retold.args = (scrub(text),)
        return retold


class BadUrlError(LazyMediaError, ValueError):
    """The text of a URL cannot be used: unparsable, ambiguous, or of an unknown scheme. The client's fault."""

    status_hint = 400


class BadRequestError(LazyMediaError, ValueError):
    """A request contradicts itself, for example in its numbers of items and placeholders. The client's fault."""

    status_hint = 400


class NotAllowedError(LazyMediaError, PermissionError):
    """Policy rejects a URL or a file. Always the same text, which does not show what exists behind it."""

    status_hint = 403

    def __init__(
        self, message: str = "not allowed by policy", *, modality: str | None = None, index: int | None = None
    ) -> None:
        super().__init__(message, modality=modality, index=index)


class PayloadTooLargeError(LazyMediaError, ValueError):
    """More encoded bytes than a limit allows, declared or counted. The client's fault."""

    status_hint = 413


class UnprocessableMediaError(LazyMediaError, ValueError):
    """The media itself is at fault: undecodable, over a media limit, or rejected by its server. The client's fault.

    ``__cause__`` holds the decoder's own exception where there was one.
    """

    status_hint = 422

    def with_note(self, note: str) -> Self:
        """The same error with a note in brackets behind its text, for what only the source of a payload knows."""
        noted = self._retold(f"{text_of(self)} ({note})")
        noted.__cause__ = self.__cause__
        return noted


class DecoderCrashedError(LazyMediaError, RuntimeError):
    """A decoder raised something that is not an `Exception` (a native panic, SystemExit). The server's fault."""

    status_hint = 500


class OverlapError(LazyMediaError, RuntimeError):
    """Two phases that must never run at once did. A bug in lazymedia, stopped before it can spoil the cache."""

    status_hint = 500


class ReleasedError(LazyMediaError, RuntimeError):
    """A reference was to be decoded, forked or mapped after its payload had been given up. The caller's fault."""

    status_hint = 500


class NotPlannableError(LazyMediaError, NotImplementedError):
    """A request cannot be planned: what an item becomes depends on its pixels or samples, or its header does not say
    how large it is. Nobody's fault; a render of the request may well succeed.
    """

    status_hint = 501


class UpstreamError(LazyMediaError, ConnectionError):
    """The server named by the URL is broken, answers nonsense, or cannot be reached. Worth another try.

    Attributes:
        transient: Whether it was of the kind that passes by itself (a reset, a truncated body, most of 5xx), so that
            the fetch had its own further tries, if there was time.
        retry_after: Seconds after which that server asks to be tried again, or None.
    """

    status_hint = 502
    retryable = True

    def __init__(
        self,
        message: str = "",
        *,
        transient: bool = False,
        retry_after: float | None = None,
        modality: str | None = None,
        index: int | None = None,
    ) -> None:
        super().__init__(message, modality=modality, index=index)
        self.transient = transient
        self.retry_after = retry_after


class OverloadedError(LazyMediaError, RuntimeError):
    """There is no room for the request now, or its owner is shutting down.

    Attributes:
        retry_after: Seconds after which another try makes sense, or None.
    """

    status_hint = 503
    retryable = True

    def __init__(
        self,
        message: str = "no capacity",
        *,
        retry_after: float | None = None,
        modality: str | None = None,
        index: int | None = None,
    ) -> None:
        super().__init__(message, modality=modality, index=index)
        self.retry_after = retry_after


class CacheMissError(LazyMediaError, KeyError):
    """Items were named by identity alone, and the cache does not hold them; send their media.

    Attributes:
        hashes: Every hash that is missing, in request order.
    """

    status_hint = 503
    retryable = True

    def __init__(self, hashes: Iterable[str] = (), *, modality: str | None = None, index: int | None = None) -> None:
        self.hashes = tuple(hashes)
        super().__init__(f"the cache does not hold {len(self.hashes)} item(s)", modality=modality, index=index)
        self.args = (self.hashes,)  # so that the error pickles

    def __str__(self) -> str:
        where = "" if self.index is None else f"{self.modality} at index {self.index}: "
        return f"{where}the cache does not hold {len(self.hashes)} item(s) named without media"

    def at(self, modality: str, index: int) -> Self:
        located = type(self)(self.hashes, modality=modality, index=index)
        located.__cause__ = self
        return located


class CacheDriftError(LazyMediaError, RuntimeError):
    """Two caches that mirror each other no longer agree. One request fails; the caches are brought together again."""

    status_hint = 503
    retryable = True


class FetchTimeoutError(LazyMediaError, TimeoutError):
    """A fetch has not ended within its total deadline."""

    status_hint = 504
    retryable = True


__all__ = [
    "MAX_TEXT",
    "BadRequestError",
    "BadUrlError",
    "CacheDriftError",
    "CacheMissError",
    "DecoderCrashedError",
    "FetchTimeoutError",
    "LazyMediaError",
    "NotAllowedError",
    "NotPlannableError",
    "OverlapError",
    "OverloadedError",
    "PayloadTooLargeError",
    "ReleasedError",
    "UnprocessableMediaError",
    "UpstreamError",
    "scrub",
    "text_of",
]

publish(__name__)
