"""On what terms a response may be kept: RFC 9111, as a cache reads it that several clients share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazymedia.fetch.http_rules.freshness import is_whole, terms_after, terms_of

NOW = 1_800_000_000.0
DATE = b"Fri, 15 Jan 2027 08:00:00 GMT"  # NOW
HOUR_BEFORE = b"Fri, 15 Jan 2027 07:00:00 GMT"
HOUR_AFTER = b"Fri, 15 Jan 2027 09:00:00 GMT"


def headers(text: str) -> list[tuple[bytes, bytes]]:
    """``name: value`` lines."""
    pairs = [line.partition(":") for line in text.splitlines()]
    return [(name.strip().encode(), value.strip().encode("latin-1")) for name, _, value in pairs]


def fresh_for(text: str) -> float | None:
    terms = terms_of(headers(text), NOW)
    return None if terms is None else terms.fresh_for


@pytest.mark.parametrize(
    "text",
    [
        "Cache-Control: no-store",
        "Cache-Control: No-Store",
        "cache-control: max-age=60\nCACHE-CONTROL: no-store",
        "Cache-Control: max-age=60, no-store",
        "Cache-Control: max-age=60 no-store",
        "Cache-Control: max-age=60;no-store",
        'Cache-Control: extension="unfinished, no-store',
        "Cache-Control: must-understand, no-store",
        "Cache-Control: private",
        'Cache-Control: private="set-cookie", max-age=60',
        "Cache-Control: max-age=60\nVary: *",
        "Cache-Control: max-age=60\nVary: Cookie",
        "Cache-Control: max-age=60\nVary: Accept-Encoding, Authorization",
        "Cache-Control: max-age=60\nVary: Accept-Encoding\nVary: User-Agent",
    ],
)
def test_what_must_not_be_kept(text: str) -> None:
    assert terms_of(headers(text), NOW) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0),
        ("Cache-Control: max-age=60", 60),
        ('Cache-Control: max-age="60"', 60),
        ("Cache-Control: public, MAX-AGE = 60", 60),
        ('Cache-Control: x="no-store", max-age=60', 60),
        ("Cache-Control: max-age=60, s-maxage=10", 10),
        ("Cache-Control: s-maxage=100, max-age=60", 100),
        ("Cache-Control: max-age=60, max-age=30", 30),
        ("Cache-Control: max-age=60\nCache-Control: max-age=30", 30),
        ("Cache-Control: max-age=-1", 0),
        ("Cache-Control: max-age=1.5", 0),
        ("Cache-Control: max-age=sixty", 0),
        ("Cache-Control: max-age", 0),
        ("Cache-Control: max-age=60, max-age=", 0),
        ("Cache-Control: max-age=\u00b2", 0),
        ("Cache-Control: max-age=" + "9" * 400, 1 << 31),
        ("Cache-Control: max-age=60, no-cache", 0),
        ('Cache-Control: max-age=60, no-cache="set-cookie"', 0),
        ("Cache-Control: immutable", 0),
        ("Pragma: no-cache", 0),
        (f"Pragma: no-cache\nExpires: {HOUR_AFTER.decode()}", 0),
        ("Pragma: no-cache\nCache-Control: max-age=60", 60),
        ("Cache-Control: max-age=60\nVary: Accept-Encoding", 60),
        ("Cache-Control: max-age=60\nVary: Origin, Access-Control-Request-Method", 60),
        ("Cache-Control: max-age=60\nVary:", 60),
        # Expires
        (f"Expires: {HOUR_AFTER.decode()}", 3600),
        (f"Expires: {HOUR_AFTER.decode()}\nDate: {DATE.decode()}", 3600),
        (f"Expires: {HOUR_AFTER.decode()}\nCache-Control: max-age=60", 60),
        (f"Expires: {HOUR_BEFORE.decode()}", 0),
        ("Expires: 0", 0),
        ("Expires: -1", 0),
        ("Expires: tomorrow", 0),
        (f"Expires: {HOUR_AFTER.decode()}\nExpires: 0", 0),
        ("Expires: Fri, 15 Jan 99999 09:00:00 GMT", 0),
        # what has been spent of it on the way
        ("Cache-Control: max-age=60\nAge: 20", 40),
        ("Cache-Control: max-age=60\nAge: 90", 0),
        ("Cache-Control: max-age=60\nAge: soon", 60),
        ("Cache-Control: max-age=60\nAge: 20\nAge: 30", 30),
        (f"Cache-Control: max-age=7200\nDate: {HOUR_BEFORE.decode()}", 3600),
        (f"Cache-Control: max-age=7200\nDate: {HOUR_BEFORE.decode()}\nAge: 4000", 3200),
        (f"Cache-Control: max-age=60\nDate: {HOUR_AFTER.decode()}", 60),  # a server whose clock is ahead
        (f"Expires: {HOUR_AFTER.decode()}\nDate: {HOUR_BEFORE.decode()}", 3600),  # two hours, one of them gone
    ],
)
def test_how_long_a_response_is_fresh(text: str, seconds: float) -> None:
    """What says nothing, or nothing that can be read, is asked for each time."""
    assert fresh_for(text) == seconds


@pytest.mark.parametrize(
    ("text", "etag", "last_modified"),
    [
        ('ETag: "x"', '"x"', None),
        ('ETag: W/"x"', 'W/"x"', None),
        ("ETag: unquoted", "unquoted", None),
        ('ETag: "a"\nETag: "b"', None, None),
        ("ETag:", None, None),
        ('ETag: "\x01"', None, None),
        ('ETag: "\xe9"', None, None),
        ('ETag: "' + "x" * 2000 + '"', None, None),
        (f"Last-Modified: {DATE.decode()}", None, DATE.decode()),
        ("Last-Modified: long ago", None, None),
        (f"Last-Modified: {DATE.decode()}\nLast-Modified: {HOUR_AFTER.decode()}", None, None),
        (f'Last-Modified: {DATE.decode()}\nETag: "x"', '"x"', DATE.decode()),
    ],
)
def test_what_to_ask_with(text: str, etag: str | None, last_modified: str | None) -> None:
    """Only what can be sent back as it came."""
    terms = terms_of(headers(text), NOW)

    assert terms is not None
    assert (terms.etag, terms.last_modified) == (etag, last_modified)
    assert terms.are_useful == bool(etag or last_modified)


@pytest.mark.parametrize(
    ("hops", "seconds"),
    [
        ([], 60),
        (["Cache-Control: max-age=600"], 60),
        (["Cache-Control: max-age=20", "Cache-Control: max-age=40"], 20),
        (["Location: /elsewhere"], 0),
        (["Cache-Control: max-age=600", ""], 0),
        (["Cache-Control: no-cache"], 0),
        (["Cache-Control: no-store"], None),
        (["", "Cache-Control: private"], None),
        (["Vary: Cookie"], None),
    ],
)
def test_a_redirect_that_may_lead_elsewhere_next_time_is_asked_again(hops: list[str], seconds: float | None) -> None:
    terms = terms_after(map(headers, hops), headers('Cache-Control: max-age=60\nETag: "x"'), NOW)

    assert (None if terms is None else terms.fresh_for) == seconds
    assert terms is None or terms.etag == '"x"'


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("Content-Length: 10", True),
        ("Content-Length: 10\nContent-Length: 10", True),
        ("Transfer-Encoding: chunked", True),
        ("Transfer-Encoding: Chunked", True),
        ("", False),
        ("Content-Length: 11", False),
        ("Content-Length: 9", False),
        ("Content-Length: 10\nContent-Length: 11", False),
        ("Content-Length: 010", False),
        ("Content-Length: 10\nTransfer-Encoding: chunked", False),
        ("Transfer-Encoding: gzip, chunked", False),
        ("Transfer-Encoding: identity", False),
        ("Content-Length: 10\nContent-Range: bytes 0-9/100", False),
    ],
)
def test_whether_a_body_of_ten_bytes_is_all_of_it(text: str, whole: bool) -> None:
    """One that ends with its connection may have been cut off."""
    assert is_whole(headers(text), 10) == whole


NAMES = st.sampled_from([b"cache-control", b"expires", b"date", b"age", b"vary", b"etag", b"last-modified", b"pragma"])
PIECES = st.sampled_from(
    [b"max-age=", b"no-store", b'"', b"\\", b",", b"=", b" ", b"60", DATE, b"GMT", b"\xff", b"\0", b"-0000", b":", b"1"]
)
VALUES = st.one_of(st.binary(max_size=40), st.lists(PIECES, max_size=8).map(b"".join))


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8))
def test_any_headers_get_an_answer(pairs: list[tuple[bytes, bytes]]) -> None:
    terms = terms_of(pairs, NOW)

    assert terms is None or terms.fresh_for >= 0
    assert is_whole(pairs, 1) is False
