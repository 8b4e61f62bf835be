"""Which failures are tried again, how often, and how a broken body is continued. When is in `tests/trio`."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from lazymedia.errors import LazyMediaError, NotAllowedError, UnprocessableMediaError, UpstreamError
from lazymedia.fetch import MediaConnector
from lazymedia.fetch.http_rules.messages import Reply
from lazymedia.fetch.http_rules.ranges import Resumption
from lazymedia.fetch.http_rules.retries import Retries, status_error
from lazymedia.fetch.policy.url import HttpUrl
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import MediaServer, Request, Response

LOOPBACK = ("127.0.0.0/8",)
IMAGE = RawBytesMediaIO("image")
AT_ONCE = Limits(retry_backoff=0, max_retry_after=0)


class Answers:
    """One answer after another, the last one for ever."""

    def __init__(self, *answers: Response | bytes) -> None:
        self._answers = list(answers)
        self.asked: list[Request] = []

    async def __call__(self, request: Request) -> Response | bytes:
        self.asked.append(request)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


async def fetch(*answers: Response | bytes, limits: Limits = AT_ONCE) -> tuple[bytes | LazyMediaError, list[Request]]:
    """What came of it, and what was asked for."""
    route = Answers(*answers)
    async with (
        MediaServer({"/a": route}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=limits) as media,
    ):
        try:
            return (await media.fetch_image(server.url("/a"), IMAGE)).data, route.asked
        except LazyMediaError as error:
            return error, route.asked


OK = Response(body=b"payload")
HANGS_UP = b""
SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"
CUT = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"
CUT_HEAD = b"HTTP/1.1 200 OK\r\nContent-Le"


def refusing(status: int, retry_after: str | None = None) -> Response:
    return Response(status, {} if retry_after is None else {"Retry-After": retry_after}, b"later")


PASSES: dict[str, Response | bytes] = {
    "hangs up": HANGS_UP,
    "short": SHORT,
    "chunks cut": CUT,
    "head cut": CUT_HEAD,
    **{f"{status}": refusing(status) for status in (408, 425, 500, 502, 503, 504, 599)},
    **{f"{status}, 0 s": refusing(status, "0") for status in (408, 429, 503)},
    "503 until a moment ago": refusing(503, "Sun, 06 Nov 1994 08:49:37 GMT"),
    "503, unreadable": refusing(503, "soon"),
}


@pytest.mark.parametrize("answer", PASSES.values(), ids=PASSES)
async def test_what_passes_by_itself_is_tried_again(answer: Response | bytes) -> None:
    assert (await fetch(answer, OK))[0] == b"payload"
    got, asked = await fetch(answer)
    assert isinstance(got, UpstreamError)
    assert len(asked) == 3
    assert len((await fetch(answer, limits=Limits(max_retries=0)))[1]) == 1


LASTS: dict[str, Response | bytes] = {
    "429 of unknown length": refusing(429),
    "429 for long": refusing(429, "3600"),
    "503 for long": refusing(503, "1"),
    "503 until far": refusing(503, format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)),
    "501": refusing(501),
    "505": refusing(505),
    "206": refusing(206),
    "coding": Response(headers={"Content-Encoding": "gzip"}, body=b"x"),
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
    "garbage": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "no place": Response(302),
    "circle": Response(302, {"Location": "/a"}),
}


@pytest.mark.parametrize("name", LASTS)
async def test_what_would_fail_again_is_not(name: str) -> None:
    got, asked = await fetch(LASTS[name])
    assert isinstance(got, UpstreamError)
    assert len(asked) == (6 if name == "circle" else 1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 204, 304])
async def test_no_other_status_is_tried_again(status: int) -> None:
    got, asked = await fetch(Response(status, body=b""))
    assert isinstance(got, UnprocessableMediaError)
    assert len(asked) == 1


async def test_a_denial_is_never_tried_again() -> None:
    got, asked = await fetch(Response(302, {"Location": "http://169.254.169.254/"}))
    assert isinstance(got, NotAllowedError)
    assert len(asked) == 1


async def test_a_server_that_is_gone_is_tried_again_and_a_name_that_is_unknown_is_not() -> None:
    dials = 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    def draw() -> float:
        nonlocal dials
        dials += 1
        return 0.0

    async with MediaConnector(allowed_networks=LOOPBACK, limits=AT_ONCE) as media:
        media._owned.downloader._retries._draw = draw
        with pytest.raises(UpstreamError):
            await media.fetch_image(f"http://127.0.0.1:{port}/", IMAGE)
    assert dials == 2


@pytest.mark.parametrize(("code", "again"), [(socket.EAI_AGAIN, True), (socket.EAI_NONAME, False)])
def test_a_lookup_is_tried_again_where_the_resolver_says_so(code: int, again: bool) -> None:
    error = UpstreamError("the name of the server cannot be resolved")
    error.__cause__ = socket.gaierror(code, "")
    assert (Retries(Limits()).delay(error, 1, 100) is not None) == again


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), ("0", 0), ("soon", None), ("-1", None), ("1.5", None)])
async def test_the_error_tells_when_the_server_wants_to_be_asked_again(header: str, seconds: float | None) -> None:
    got, _ = await fetch(refusing(503, header), limits=Limits(max_retries=0))
    assert isinstance(got, UpstreamError)
    assert got.retry_after == seconds
    assert got.at("image", 2).retry_after == seconds


def test_waits_grow_are_drawn_and_end_with_the_time() -> None:
    error = UpstreamError("", transient=True)
    half = Retries(Limits(retry_backoff=1.0, max_retries=3), lambda: 0.5)
    assert [half.delay(error, tries, 100) for tries in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, None]
    assert half.delay(error, 2, 1.0) is None, "nobody would wait for it"
    assert Retries(Limits(retry_backoff=1.0), lambda: 0.0).delay(error, 1, 100) == 0
    patient = UpstreamError("", transient=True, retry_after=3.0)
    assert half.delay(patient, 1, 100) == 3.0
    assert half.delay(patient, 1, 2.0) is None
    assert Retries(Limits(max_retry_after=2.9)).delay(patient, 1, 100) is None


def test_a_date_is_read_as_seconds_from_now() -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True).encode()
    error = status_error(Reply(503, [(b"retry-after", moment)], _nothing()))
    assert error.retry_after is not None
    assert 90 < error.retry_after <= 100


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


# --- bodies that break off ---------------------------------------------------------------------------------------

WHOLE = bytes(range(256)) * 4
ETAG = '"v1"'
OLD = "Sun, 06 Nov 1994 08:49:37 GMT"
LATER = "Sun, 06 Nov 1994 09:49:37 GMT"


def broken(at: int, *headers: str, total: int = len(WHOLE)) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {total}", *headers, "", ""]
    return "\r\n".join(lines).encode() + WHOLE[:at]


def rest(start: int, *headers: str, status: int = 206, span: str | None = None, body: bytes | None = None) -> bytes:
    body = WHOLE[start:] if body is None else body
    span = f"bytes {start}-{len(WHOLE) - 1}/{len(WHOLE)}" if span is None else span
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", f"Content-Range: {span}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


WHOLE_AGAIN = Response(headers={"ETag": '"v2"'}, body=WHOLE)
TAGGED = f"ETag: {ETAG}"


async def test_a_broken_body_is_continued() -> None:
    got, asked = await fetch(broken(100, TAGGED), rest(100, TAGGED))
    assert got == WHOLE
    assert "range" not in asked[0].headers
    assert (asked[1].headers["range"], asked[1].headers["if-range"]) == ("bytes=100-", ETAG)


async def test_it_may_break_off_twice() -> None:
    again = rest(100, TAGGED)[: -len(WHOLE) + 300]
    got, asked = await fetch(broken(100, TAGGED), again, rest(300, TAGGED))
    assert got == WHOLE
    assert asked[2].headers["range"] == "bytes=300-"


async def test_a_long_body_keeps_its_key_over_a_break() -> None:
    """Its digest is taken while it comes."""
    big = WHOLE * 2000
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(big)}\r\n{TAGGED}\r\n\r\n".encode()
    tail = rest(0, TAGGED, body=big[1_000_000:], span=f"bytes 1000000-{len(big) - 1}/{len(big)}")
    async with (
        MediaServer({"/a": Answers(head + big[:1_000_000], tail), "/b": big}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=AT_ONCE) as media,
    ):
        refs = [await media.fetch_image(server.url(path), IMAGE) for path in ("/a", "/b")]
    assert refs[0].key == refs[1].key == IMAGE.load_bytes_ref(big).key
    assert refs[0].data == big


async def test_a_last_modified_is_as_good_where_it_is_old_enough() -> None:
    headers = (f"Last-Modified: {OLD}", f"Date: {LATER}")
    got, asked = await fetch(broken(100, *headers), rest(100, *headers))
    assert got == WHOLE
    assert asked[1].headers["if-range"] == OLD


NOT_ASKED_FOR = {
    "no validator": (),
    "weak": ('ETag: W/"v1"',),
    "weak beside a date": ('ETag: W/"v1"', f"Last-Modified: {OLD}", f"Date: {LATER}"),
    "two": ('ETag: "a"', 'ETag: "b"'),
    "unquoted": ("ETag: v1",),
    "modified without a date": (f"Last-Modified: {OLD}",),
    "just modified": (f"Last-Modified: {OLD}", f"Date: {OLD}"),
    "no date at all": ("Last-Modified: yesterday", f"Date: {LATER}"),
    "no ranges": (TAGGED, "Accept-Ranges: none"),
}


@pytest.mark.parametrize("headers", NOT_ASKED_FOR.values(), ids=NOT_ASKED_FOR)
async def test_without_a_strong_validator_all_is_asked_for_again(headers: Sequence[str]) -> None:
    got, asked = await fetch(broken(100, *headers), WHOLE_AGAIN)
    assert got == WHOLE
    assert not {"range", "if-range"} & asked[1].headers.keys()


async def test_a_body_that_broke_off_before_its_first_byte_is_asked_for_whole() -> None:
    got, asked = await fetch(broken(0, TAGGED), WHOLE_AGAIN)
    assert got == WHOLE
    assert "range" not in asked[1].headers


WRONG_RESTS = {
    "from elsewhere": rest(101, TAGGED),
    "from the beginning, as a part": rest(0, TAGGED, body=WHOLE[:500], span="bytes 0-499/1024"),
    "of another version": rest(100, 'ETag: "v2"'),
    "of no version": rest(100),
    "of another length": rest(100, TAGGED, span="bytes 100-1023/2000"),
    "of a longer whole": rest(100, TAGGED, span="bytes 100-1999/2000", body=bytes(1900)),
    "not to the end": rest(100, TAGGED, span="bytes 100-199/1024", body=WHOLE[100:200]),
    "not as long as it says": rest(100, TAGGED, body=WHOLE[101:]),
    "backwards": rest(100, TAGGED, span="bytes 1023-100/1024"),
    "of unknown length": rest(100, TAGGED, span="bytes 100-1023/*"),
    "in other units": rest(100, TAGGED, span="lines 100-1023/1024"),
    "nowhere": rest(100, TAGGED, status=416, span="bytes */1024", body=b""),
}


@pytest.mark.parametrize("answer", WRONG_RESTS.values(), ids=WRONG_RESTS)
async def test_a_rest_that_is_not_exactly_that_is_dropped_for_the_whole(answer: bytes) -> None:
    got, asked = await fetch(broken(100, TAGGED), answer, WHOLE_AGAIN)
    assert got == WHOLE
    assert "range" in asked[1].headers
    assert "range" not in asked[2].headers


async def test_a_server_that_has_changed_its_mind_sends_the_whole() -> None:
    got, asked = await fetch(broken(100, TAGGED), WHOLE_AGAIN)
    assert got == WHOLE
    assert len(asked) == 2


async def test_a_rest_with_a_content_coding_is_refused() -> None:
    got, _ = await fetch(broken(100, TAGGED), rest(100, TAGGED, "Content-Encoding: gzip"))
    assert isinstance(got, UpstreamError)


async def test_a_try_that_fails_in_between_does_not_lose_what_has_come() -> None:
    got, asked = await fetch(broken(100, TAGGED), refusing(503), rest(100, TAGGED))
    assert got == WHOLE
    assert asked[2].headers["range"] == "bytes=100-"


async def test_chunks_are_continued_too() -> None:
    cut = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n%b\r\n\r\n64\r\n%b\r\n" % (TAGGED.encode(), WHOLE[:100])
    assert (await fetch(cut, rest(100, TAGGED)))[0] == WHOLE


@pytest.mark.parametrize("moved", [False, True])
async def test_a_body_behind_a_redirect_is_continued_only_at_the_same_place(moved: bool) -> None:
    """The way there is gone anew, by the rules, and only the URL that the first half came from is asked for a range."""
    places = iter(["/b", "/c" if moved else "/b"])

    async def way(request: Request) -> Response:
        return Response(302, {"Location": next(places)})

    target, other = Answers(broken(100, TAGGED), rest(100, TAGGED)), Answers(Response(body=WHOLE))
    async with (
        MediaServer({"/a": way, "/b": target, "/c": other}) as server,
        MediaConnector(allowed_networks=LOOPBACK, limits=AT_ONCE) as media,
    ):
        assert (await media.fetch_image(server.url("/a"), IMAGE)).data == WHOLE

        assert [("range" in request.headers) for request in server.requests] == [False, False, False, not moved]
        assert [request.path for request in server.requests] == ["/a", "/b", "/a", "/c" if moved else "/b"]


async def test_the_cap_counts_both_halves() -> None:
    limits = Limits(retry_backoff=0, max_download_bytes=1000)
    cut = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n%b\r\n\r\n64\r\n%b\r\n" % (TAGGED.encode(), WHOLE[:100])
    got, _ = await fetch(cut, rest(100, TAGGED), limits=limits)
    assert re.search("more than the 1000", str(got))


COVERING = {
    "all": ("bytes 0-1023/1024", True),
    "all, in capitals": ("BYTES 0-1023/1024", True),
    "not the end": ("bytes 0-1023/1025", False),
    "not the beginning": ("bytes 1-1024/1025", False),
    "unknown": ("bytes 0-1023/*", False),
    "none": ("bytes */1024", False),
    "beyond": ("bytes 0-1024/1024", False),
    "not as long": ("bytes 0-2047/2048", False),
    "nonsense": ("all", False),
}


@pytest.mark.parametrize(("span", "is_taken"), COVERING.values(), ids=COVERING)
async def test_a_part_that_nobody_asked_for_is_taken_if_it_is_the_whole(span: str, is_taken: bool) -> None:
    got, asked = await fetch(rest(0, span=span))
    assert (got == WHOLE) if is_taken else isinstance(got, UpstreamError)
    assert len(asked) == 1


def test_a_resumption_is_asked_for_at_its_own_url_only() -> None:
    url, other = HttpUrl("http", "a.example", 80, "/"), HttpUrl("https", "a.example", 443, "/")
    resumption = Resumption.of(url, Reply(200, [(b"etag", b'"x"')], _nothing()), 100)
    assert resumption is not None
    assert resumption.conditions(5).headers_for(url) == ((b"Range", b"bytes=5-"), (b"If-Range", b'"x"'))
    assert resumption.conditions(5).headers_for(other) == ()
