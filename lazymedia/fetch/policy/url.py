"""URLs: one parse, whose value is both checked and dialled.

There is no second parser: two parsers that disagree about a host are how a check is bypassed. Whatever two common
parsers read differently is rejected: backslashes, control characters, user-info, numbers that only some resolvers take
for an address, zone ids. The request target goes out byte for byte as it came in; only characters that no request line
can carry are percent-encoded, as browsers do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import unquote_to_bytes, urljoin

import idna

from lazymedia.errors import BadUrlError, NotAllowedError

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_MAX_HOST: Final = 253  # RFC 1035, section 2.3.4, as text without the trailing dot
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HIERARCHY: Final = re.compile(r"//([^/?#]*)([^#]*)")
_LITERAL_V6: Final = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::([0-9]{0,5}))?")
_NAME_AND_PORT: Final = re.compile(r"([^:]*)(?::([0-9]{0,5}))?")
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\\u2028\u2029\ud800-\udfff]")
# The percent-encode sets of the URL standard (url.spec.whatwg.org); "|", "'", "[", "]" and a bare "%" stay as they are.
_ESCAPED_IN_PATH: Final = re.compile(r"[^!#-;=?-_a-z|~]+")
_ESCAPED_IN_QUERY: Final = re.compile(r"[^!#-;=?-~]+")
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]+")
_UP_TO_PATH: Final = re.compile(rb"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#]*")
_LONGEST_SCHEME: Final = 64


@dataclass(frozen=True, slots=True)
class DataUrl:
    """A data URL, not looked into: it may have tens of megabytes."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class FileUrl:
    """An absolute path on this host, percent-decoded once."""

    path: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """A request to be made.

    Attributes:
        scheme: ``"http"`` or ``"https"``.
        host: A name in lower-case ASCII without a trailing dot, or an IP address without brackets.
        port: As dialled, the scheme's default filled in.
        target: What stands in the request line: path and query, printable ASCII, no fragment.
    """

    scheme: str
    host: str
    port: int
    target: str = field(repr=False)

    @property
    def netloc(self) -> str:
        """Host and port as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def text(self) -> str:
        """The URL as text that parses to this value."""
        return f"{self.scheme}://{self.netloc}{self.target}"


def parse_url(text: str, *, max_length: int) -> DataUrl | FileUrl | HttpUrl:
    """What ``text`` means.

    Args:
        text: A URL as a client gave it. Schemes are read in any case.
        max_length: Characters allowed, data URLs excepted (their payload's size is checked before it is decoded).

    Raises:
        BadUrlError: It cannot be parsed, could be read in two ways, or has a scheme that is not served.
        NotAllowedError: A file URL that names another host or no absolute path.
    """
    if not isinstance(text, str):
        raise BadUrlError(f"a URL is text, not {type(text).__name__}")
    if text[:5].lower() == "data:":
        return DataUrl(text)
    if _SCHEME.match(text[:_LONGEST_SCHEME].lstrip()) is None:  # first: base64 without its prefix is also too long
        raise BadUrlError(
            "the URL has no scheme: it must begin with http:, https:, data: or file:, and base64 text with"
            " data:<media type>;base64,"
        )
    if text[:1].isspace():
        raise BadUrlError("the URL has white space around it")
    if len(text) > max_length:
        raise BadUrlError(f"the URL has more than the {max_length} characters allowed")
    _reject_unsafe(text)
    scheme = _SCHEME.match(text)
    match scheme and scheme[1].lower():
        case "http" | "https" as web:
            return _parse_http(web, text[len(web) + 1 :])
        case "file":
            return _parse_file(text[len("file:") :])
        case _:
            raise BadUrlError("the URL must begin with http:, https:, data: or file:")


def read_location(value: bytes) -> str:
    """The text of a Location header, as browsers read it.

    A path or query in other bytes than ASCII names what the server will know by the same bytes, whatever encoding they
    are in, so each is percent-encoded. A host is a name in UTF-8, or in Latin-1 where it cannot be that.
    """
    if value.isascii():
        return value.decode("ascii")
    match = _UP_TO_PATH.match(value)
    authority = b"" if match is None else match[0]
    rest = _NOT_ASCII.sub(lambda match: _escaped(match[0]).encode("ascii"), value[len(authority) :])
    try:
        return authority.decode() + rest.decode("ascii")
    except UnicodeDecodeError:
        return authority.decode("latin-1") + rest.decode("ascii")


def follow(base: HttpUrl, location: str, *, max_length: int) -> HttpUrl:
    """Where a redirect from ``base`` leads.

    Args:
        base: The URL that was answered with a redirect.
        location: As from `read_location`.
        max_length: As for `parse_url`.

    Raises:
        BadUrlError: As `parse_url`.
        NotAllowedError: It leaves http and https, or goes from https back to http.
    """
    _reject_unsafe(location)
    if _SCHEME.match(location):
        text = location
    elif location.startswith("//"):
        text = f"{base.scheme}:{location}"
    elif location.startswith("/"):
        text = f"{base.scheme}://{base.netloc}{location}"
    else:
        text = urljoin(base.text, location)
    url = parse_url(text, max_length=max_length)
    if not isinstance(url, HttpUrl) or (base.scheme, url.scheme) == ("https", "http"):
        raise NotAllowedError
    return url


def parse_authority(text: str) -> tuple[str, int | None]:
    """Host and port of ``host[:port]``; the host in the form of `HttpUrl.host`.

    Raises:
        BadUrlError: No such host can exist, or it could be read in two ways.
    """
    bracketed = text.startswith("[")
    match = (_LITERAL_V6 if bracketed else _NAME_AND_PORT).fullmatch(text)
    if match is None:
        raise BadUrlError("the URL's host or port cannot be read; user names and passwords are not taken")
    host = _literal_v6(match[1]) if bracketed else _name(match[1])
    port = int(match[2]) if match[2] else None
    if port is not None and not 0 < port < 1 << 16:
        raise BadUrlError("the URL's port is not between 1 and 65535")
    return host, port


def _parse_http(scheme: str, rest: str) -> HttpUrl:
    match = _HIERARCHY.match(rest)
    if match is None:
        raise BadUrlError(f"the URL lacks // after {scheme}:")
    host, port = parse_authority(match[1])
    path, question, query = match[2].partition("?")
    target = _ESCAPED_IN_PATH.sub(_percent, path or "/") + question + _ESCAPED_IN_QUERY.sub(_percent, query)
    return HttpUrl(scheme, host, DEFAULT_PORTS[scheme] if port is None else port, target)


def _parse_file(rest: str) -> FileUrl:
    """RFC 8089: ``file:/p``, ``file:///p`` and ``file://localhost/p`` name the same file."""
    if "?" in rest or "#" in rest:
        raise BadUrlError("a file URL has no query and no fragment; write ? and # of a file's name as %3F and %23")
    match = _HIERARCHY.match(rest)
    host, path = (match[1], match[2]) if match else ("", rest)
    decoded = unquote_to_bytes(path)
    if host.lower() not in {"", "localhost"} or not decoded.startswith(b"/") or b"\0" in decoded:
        raise NotAllowedError
    return FileUrl(decoded)


def _literal_v6(text: str) -> str:
    try:
        return IPv6Address(text).compressed
    except AddressValueError:
        raise BadUrlError("the URL's host is not an IPv6 address") from None


def _name(text: str) -> str:
    host = text.lower()
    if not host.isascii():
        host = _to_ascii(host)
    host = host.removesuffix(".")
    labels = host.split(".")
    if len(host) > _MAX_HOST or not all(map(_LABEL.fullmatch, labels)):
        raise BadUrlError("the URL's host is not a host name; user names and passwords are not taken")
    if _NUMBER.fullmatch(labels[-1]):
        # Resolvers read 127.1, 0x7f.1 or 2130706433 as addresses. All such forms end in a number, and no domain does.
        try:
            IPv4Address(host)
        except AddressValueError:
            raise BadUrlError("the URL's host is a number that is not an IPv4 address in its usual form") from None
    return host


def _to_ascii(host: str) -> str:
    try:
        return idna.encode(host).decode("ascii")
    except UnicodeError:
        raise BadUrlError("the URL's host is not an international host name") from None


def _reject_unsafe(text: str) -> None:
    if text != text.strip() or _UNSAFE.search(text):
        raise BadUrlError("the URL has a control character, a backslash, or white space around it")


def _percent(match: re.Match[str]) -> str:
    return _escaped(match[0].encode())


def _escaped(data: bytes) -> str:
    return "%" + data.hex("%").upper()


__all__ = ["DEFAULT_PORTS", "DataUrl", "FileUrl", "HttpUrl", "follow", "parse_authority", "parse_url", "read_location"]
