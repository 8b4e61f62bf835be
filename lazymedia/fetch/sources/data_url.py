"""Data URLs: payloads inside the URL itself (RFC 2397). For worker threads.

Everything works in blocks: one call over the whole text, which may have tens of megabytes, would hold the interpreter's
lock, and with it the event loop, for as long as it takes. A general URL parser takes seconds for it.

Base64 is read as browsers read it (infra.spec.whatwg.org, forgiving-base64): white space does not count, the padding
may be missing, all else must be right. The alphabet for URLs is rejected: a payload may mix both, and guessing could
yield another picture than was sent. Escapes are whole; there is no fragment; a comma inside a quoted parameter does not
end the media type.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Self

import pybase64

from lazymedia.errors import BadUrlError, UnprocessableMediaError
from lazymedia.fetch.body_buffer import CappedBuffer, too_large
from lazymedia.fetch.policy.url import DataUrl

_PREFIX: Final = len("data:")
_MAX_HEADER: Final = 4096
"""Characters before the comma; a media type with parameters has some dozens."""
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_UP_TO_COMMA: Final = re.compile(rf'(?:[^",]|{_QUOTED})*(?=,)')
# To the closing quote, or to the end where there is none. It matches at every quote, so that a long header costs one
# pass: a search for quoted strings that may fail starts again at every quote.
_QUOTED_OR_OPEN: Final = re.compile(r'"(?:[^"\\]|\\.?)*("|\Z)', re.DOTALL)
_SPACE: Final = "\t\n\f\r "
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_BLOCK: Final = 1 << 16
"""Characters that one step takes, in whole groups of base64."""
_NO_SPACE: Final = str.maketrans("", "", _SPACE)


@dataclass(frozen=True, slots=True)
class DataPayload:
    """A data URL, taken apart and not yet decoded.

    Attributes:
        media_type: In lower case, without parameters; a hint that the bytes overrule.
        is_base64: Otherwise the payload is percent-encoded.
        text: The whole URL.
        start: Where the payload begins in it.
        escapes: Percent signs in the payload; base64 may have some, for its ``+/=``.
        spaces: Characters of white space in the payload, counted in base64 only.
    """

    media_type: str
    is_base64: bool
    text: str = field(repr=False)
    start: int
    escapes: int
    spaces: int

    @classmethod
    def parse(cls, url: DataUrl, max_bytes: int) -> Self:
        """Take a data URL apart and check the size of its payload, without decoding it.

        Raises:
            BadUrlError: Not a data URL, or one that could be read in two ways.
            PayloadTooLargeError: It cannot decode to ``max_bytes`` or fewer.
            UnprocessableMediaError: No payload.
        """
        text = url.text
        head = _header(text)
        if head is None or not text.isascii():
            raise BadUrlError("the data URL has no comma after its media type, or characters other than ASCII")
        media_type, parameters = head.partition(";")[0].strip().lower(), _parameters(head)
        if "base64" in parameters[:-1]:
            raise BadUrlError("base64 must be the last parameter of a data URL")
        start = _PREFIX + len(head) + 1
        if start == len(text):
            raise _empty()
        is_base64 = parameters[-1:] == ["base64"]
        escapes = spaces = 0
        for block in _blocks_of(text, start):
            escapes += block.count("%")
            if is_base64:
                spaces += sum(map(block.count, _SPACE))
        payload = cls(media_type or "text/plain", is_base64, text, start, escapes, spaces)
        if payload._least_bytes() > max_bytes:
            raise too_large(max_bytes)
        return payload

    def _least_bytes(self) -> int:
        symbols = len(self.text) - self.start - 2 * self.escapes
        if not self.is_base64:
            return symbols
        # Any escape may stand for white space.
        return (symbols - self.escapes - self.spaces) // 4 * 3 - 2

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
        if not len(buffer):
            raise _empty()
        return buffer.getvalue()

    def symbols(self) -> str:
        """Base64 text without escapes and white space, for a decoder that wants it so. Padded, unless it holds commas:
        what those mean is the decoder's business.

        Raises:
            BadUrlError: A broken escape, or characters that no padding completes.
        """
        text = "".join(self._blocks())
        return text if "," in text or len(text) % 4 == 0 else _padded(text, len(text))

    def _unescape(self) -> Iterator[bytes]:
        start = self.start
        while start < len(self.text):
            end = start + _BLOCK
            cut = self.text.rfind("%", end - 2, end)  # an escape stays whole
            end = end if cut < 0 else cut
            yield _unquote(self.text[start:end])
            start = end

    def _blocks(self) -> Iterator[str]:
        """Base64 text in pieces of any size, without escapes and white space."""
        if self.escapes:
            yield from (piece.decode("latin-1").translate(_NO_SPACE) for piece in self._unescape())
            return
        for block in _blocks_of(self.text, self.start):
            yield block.translate(_NO_SPACE) if self.spaces else block

    def _decode_base64(self) -> Iterator[bytes]:
        pending, total = "", 0
        for block in self._blocks():
            pending, total = pending + block, total + len(block)
            if len(pending) > _BLOCK:  # something follows, so that no padding belongs here
                yield _whole(pending[:_BLOCK])
                pending = pending[_BLOCK:]
        yield _decoded(_padded(pending, total))


def _header(text: str) -> str | None:
    """What stands before the payload's comma; None where there is no such comma. A quote that is never closed is no
    quote.
    """
    head = text[_PREFIX : _PREFIX + _MAX_HEADER]
    quoted = _UP_TO_COMMA.match(head)
    if quoted is not None:
        return quoted[0]
    comma = head.find(",")
    return None if comma < 0 else head[:comma]


def _parameters(head: str) -> list[str]:
    """What stands behind the semicolons outside quotes; of quoted strings only the quotes."""
    bare = _QUOTED_OR_OPEN.sub(lambda match: '""' if match[1] else match[0], head)
    return [part.strip().lower() for part in bare.split(";")[1:] if part]


def _blocks_of(text: str, start: int) -> Iterator[str]:
    return (text[position : position + _BLOCK] for position in range(start, len(text), _BLOCK))


def _padded(end: str, length: int) -> str:
    """The end of a base64 text of that length in all, with its padding."""
    if length % 4 == 0:
        return end
    if length % 4 == 1 or "=" in end:
        raise _not_base64()
    return end + "=" * (-length % 4)


def _whole(block: str) -> bytes:
    piece = _decoded(block)
    if len(piece) < _BLOCK // 4 * 3:
        raise _not_base64()  # padding in the middle
    return piece


def _decoded(block: str) -> bytes:
    try:
        return pybase64.b64decode(block, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise _not_base64() from exc


def _unquote(text: str) -> bytes:
    if _BROKEN_ESCAPE.search(text):
        raise BadUrlError("the payload of the data URL has a percent sign that begins no escape")
    if "#" in text:
        raise BadUrlError("the payload of a data URL must have # percent-encoded")
    # Quoted-printable is percent-encoding with another sign, and the standard library has it in C. `unquote_to_bytes`
    # makes an object of every escape, which takes six times as long.
    return binascii.a2b_qp(text.encode("ascii").replace(b"=", b"=3D").replace(b"%", b"="))


def _empty() -> UnprocessableMediaError:
    return UnprocessableMediaError("the data URL has an empty payload")


def _not_base64() -> BadUrlError:
    return BadUrlError("the data URL's payload is not base64 in the standard alphabet")


__all__ = ["DataPayload"]
