"""Payloads inside the URL itself (RFC 2397).

Comes in: a `DataUrl`. Goes out: its media type and payload. Never here: a general URL parser (tens of megabytes of text
take one seconds), or the event loop; every function here is for a worker thread, and works in blocks so that the loop's
own thread gets its turns.

One reading only: base64 has its padding, the standard alphabet and no white space in it; escapes are whole; there is no
fragment. A payload that is nearly base64 is refused, because guessing could yield a shorter picture than was sent.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Self

import pybase64

from lazymedia.errors import BadUrlError, UnprocessableMediaError
from lazymedia.fetch.caps import CappedBuffer, too_large
from lazymedia.fetch.url import DataUrl

_PREFIX: Final = len("data:")
_MAX_HEADER: Final = 4096
"""Characters before the comma; a media type with parameters has some dozens."""
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_BLOCK: Final = 1 << 16
"""Characters that one step takes, in whole groups of base64."""


@dataclass(frozen=True, slots=True)
class DataPayload:
    """A data URL, taken apart and not yet decoded.

    Attributes:
        media_type: In lower case, without parameters; a hint that the bytes overrule.
        is_base64: Otherwise the payload is percent-encoded.
        text: The whole URL.
        start: Where the payload begins in it.
        has_escapes: Whether there is a percent sign in the payload; base64 may have some, for its ``+/=``.
    """

    media_type: str
    is_base64: bool
    text: str = field(repr=False)
    start: int
    has_escapes: bool

    @classmethod
    def parse(cls, url: DataUrl, max_bytes: int) -> Self:
        """Take a data URL apart and judge the size of its payload, without decoding it.

        Raises:
            BadUrlError: Not a data URL, or one that could be read in two ways.
            PayloadTooLargeError: It cannot decode to ``max_bytes`` or fewer.
            UnprocessableMediaError: No payload.
        """
        text = url.text
        comma = text.find(",", _PREFIX, _PREFIX + _MAX_HEADER)
        if comma < 0 or not text.isascii():
            raise BadUrlError("the data URL has no comma after its media type, or characters other than ASCII")
        media_type, *parameters = [part.strip().lower() for part in text[_PREFIX:comma].split(";")]
        if "base64" in parameters[:-1]:
            raise BadUrlError("base64 must be the last parameter of a data URL")
        start = comma + 1
        if start == len(text):
            raise UnprocessableMediaError("the data URL has an empty payload")
        is_base64 = parameters[-1:] == ["base64"]
        payload = cls(media_type or "text/plain", is_base64, text, start, text.find("%", start) >= 0)
        if payload._least_bytes() > max_bytes:
            raise too_large(max_bytes)
        return payload

    def _least_bytes(self) -> int:
        symbols = len(self.text) - self.start
        if self.has_escapes:
            symbols -= 2 * self.text.count("%", self.start)
        return symbols // 4 * 3 - 2 if self.is_base64 else symbols

    def decode(self, max_bytes: int) -> bytes:
        """The payload.

        Raises:
            BadUrlError: Neither base64 nor percent-encoded as it should be.
            PayloadTooLargeError: More than ``max_bytes``.
            UnprocessableMediaError: Empty.
        """
        buffer = CappedBuffer(max_bytes)
        for piece in self._decode_base64() if self.is_base64 else self._unescape():
            buffer.write(piece)
        return buffer.getvalue()

    def symbols(self) -> str:
        """Base64 text without escapes, for a decoder that wants it so.

        Raises:
            BadUrlError: A broken escape.
        """
        return b"".join(self._unescape()).decode() if self.has_escapes else self.text[self.start :]

    def _unescape(self) -> Iterator[bytes]:
        if self.has_escapes and _BROKEN_ESCAPE.search(self.text, self.start):
            raise BadUrlError("the payload of the data URL has a percent sign that begins no escape")
        if self.text.find("#", self.start) >= 0:
            raise BadUrlError("the payload of a data URL must have # percent-encoded")
        start = self.start
        while start < len(self.text):
            end = start + _BLOCK
            cut = self.text.rfind("%", end - 2, end)  # an escape stays whole
            end = end if cut < 0 else cut
            yield _unquote(self.text[start:end])
            start = end

    def _decode_base64(self) -> Iterator[bytes]:
        text, start = (self.symbols(), 0) if self.has_escapes else (self.text, self.start)
        for position in range(start, len(text), _BLOCK):
            block = text[position : position + _BLOCK]
            try:
                piece = pybase64.b64decode(block, validate=True)
            except (binascii.Error, ValueError) as exc:
                raise _not_base64() from exc
            if len(piece) < _BLOCK // 4 * 3 and position + _BLOCK < len(text):
                raise _not_base64()  # padding in the middle
            yield piece


def _unquote(text: str) -> bytes:
    # Quoted-printable is percent-encoding with another sign, and the standard library has it in C. `unquote_to_bytes`
    # makes an object of every escape, which takes six times as long.
    return binascii.a2b_qp(text.encode("ascii").replace(b"=", b"=3D").replace(b"%", b"="))


def _not_base64() -> BadUrlError:
    return BadUrlError(
        "the data URL's payload is not base64 with padding, in the standard alphabet, without white space"
    )


__all__ = ["DataPayload"]
