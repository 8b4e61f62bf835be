"""What each answer of a server leads to, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lazymedia.errors import (
    LazyMediaError,
    NotAllowedError,
    PayloadTooLargeError,
    UnprocessableMediaError,
    UpstreamError,
)
from lazymedia.fetch import MediaConnector
from lazymedia.fetch.body_buffer import BodyBuffer
from lazymedia.fetch.download import Downloader
from lazymedia.fetch.http_rules.messages import Headers, Reply
from lazymedia.fetch.policy.domains import DomainRules
from lazymedia.fetch.policy.url import HttpUrl, parse_url
from lazymedia.limits import Limits
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import MediaServer, Request, Response

LOOPBACK = ("127.0.0.0/8",)
CAP = 1000
IMAGE = RawBytesMediaIO("image", limits=Limits(max_image_bytes=CAP))


async def fetch(server: MediaServer, path: str, **settings: object) -> bytes:
    settings = {"limits": Limits(max_retries=0)} | settings
    async with MediaConnector(allowed_networks=LOOPBACK, **settings) as media:  # type: ignore[arg-type]  # of a table
        return (await media.fetch_image(server.url(path), IMAGE)).data


async def fails(server: MediaServer, error: type[LazyMediaError], path: str = "/a", **settings: object) -> str:
    with pytest.raises(error) as caught:
        await fetch(server, path, **settings)
    assert "127.0.0.1" not in str(caught.value)
    assert str(server.port) not in str(caught.value)
    return str(caught.value)


def raw(answer: bytes) -> MediaServer:
    """A server that answers ``/a`` with exactly these bytes, and then hangs up."""

    async def handler(request: Request) -> bytes:
        return answer

    return MediaServer({"/a": handler})


def answering(
    status: int = 200, headers: dict[str, str] | None = None, body: bytes = b"the body of a page that nobody shall see"
) -> MediaServer:
    async def handler(request: Request) -> Response:
        return Response(status, headers or {}, b"" if status in {204, 304} else body)

    return MediaServer({"/a": handler})


UNPROCESSABLE = (201, 202, 203, 204, 205, 300, 304, 305, 306, 400, 401, 403, 404, 407, 410, 418, 451, 499)
UPSTREAM = (206, 408, 425, 429, 500, 502, 503, 504, 599)


@pytest.mark.parametrize(
    ("status", "error"),
    [(status, UnprocessableMediaError) for status in UNPROCESSABLE] + [(status, UpstreamError) for status in UPSTREAM],
)
async def test_a_status_other_than_200_is_an_error_of_its_kind(status: int, error: type[LazyMediaError]) -> None:
    async with answering(status) as server:
        text = await fails(server, error)

    assert str(status) in text
    assert "nobody shall see" not in text


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed_by_a_get(status: int) -> None:
    async def redirect(request: Request) -> Response:
        return Response(status, {"Location": "/b?x=%2F"}, b"moved")

    async with MediaServer({"/a": redirect, "/b": b"payload"}) as server:
        assert await fetch(server, "/a") == b"payload"

    assert [(request.method, request.target) for request in server.requests] == [("GET", "/a"), ("GET", "/b?x=%2F")]


async def test_redirects_are_followed_up_to_the_limit() -> None:
    async def redirect(request: Request) -> Response:
        left = int(request.target.partition("?")[2])
        return Response(302, {"Location": f"/a?{left - 1}"}) if left else Response(body=b"payload")

    async with MediaServer({"/a": redirect}) as server:
        assert await fetch(server, "/a?3", limits=Limits(max_redirects=3, max_retries=0)) == b"payload"
        assert server.hits["/a"] == 4
        await fails(server, UpstreamError, "/a?4", limits=Limits(max_redirects=3, max_retries=0))
        assert server.hits["/a"] == 8
        await fails(server, UpstreamError, "/a?1", limits=Limits(max_redirects=0, max_retries=0))


async def test_the_body_of_a_redirect_is_not_read() -> None:
    """It could be endless, and its connection is of no use any more."""
    ended = anyio.Event()

    async def redirect(request: Request) -> Response:
        async def endless() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x" * 65536
            finally:
                ended.set()

        return Response(302, {"Location": "/b"}, endless())

    async with MediaServer({"/a": redirect, "/b": b"payload"}) as server:
        assert await fetch(server, "/a") == b"payload"
        with anyio.fail_after(5):
            await ended.wait()


@pytest.mark.parametrize(
    "headers",
    [
        b"Location: /b\r\nLocation: /c\r\n",
        b"Location: \r\n",
        b"",
        b"Refresh: 0; url=/b\r\n",
    ],
)
async def test_a_redirect_that_names_no_place_is_an_upstream_failure(headers: bytes) -> None:
    async with raw(b"HTTP/1.1 302 Found\r\n" + headers + b"Content-Length: 0\r\n\r\n") as server:
        await fails(server, UpstreamError)


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("http://public.example/", NotAllowedError),
        ("file:///etc/hostname", NotAllowedError),
        ("data:,x", NotAllowedError),
        ("ftp://127.0.0.1/", UpstreamError),
        ("javascript:x", UpstreamError),
        ("http://user:pw@127.0.0.1/", UpstreamError),
        ("http://127.0.0.1\\@public.example/", UpstreamError),
        ("http://[::1", UpstreamError),
        ("/" + "x" * 10_000, UpstreamError),
    ],
)
async def test_a_redirect_leads_only_where_a_url_may(location: str, error: type[LazyMediaError]) -> None:
    async with raw(b"HTTP/1.1 302 Found\r\nLocation: %b\r\n\r\n" % location.encode()) as server:
        await fails(server, error, allowed_media_domains=["127.0.0.1"])
        assert server.hits["/a"] == 1


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/bücher".encode(), "/b%C3%BCcher"),
        ("/bücher".encode("latin-1"), "/b%FCcher"),  # the bytes that the server knows it by
        ("b?q=ü".encode(), "/b?q=%C3%BC"),
        ("b?q=ü".encode("latin-1"), "/b?q=%FC"),
        ("?ü".encode(), "/a?%C3%BC"),
        ("/日本".encode("shift_jis"), "/%93%FA%96%7B"),
        ("/\u2028".encode(), "/%E2%80%A8"),
        ("/b#ü".encode(), "/b"),
        (b"/a b%20c", "/a%20b%20c"),
    ],
    ids=repr,
)
async def test_a_location_in_any_encoding_is_followed_as_browsers_do(location: bytes, target: str) -> None:
    async def handler(request: Request) -> Response | bytes:
        if request.target == target:
            return Response(body=b"there")
        return b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % location

    async with MediaServer({"/a": handler, target.partition("?")[0]: handler}) as server:
        assert await fetch(server, "/a") == b"there"


@pytest.mark.parametrize(
    ("size", "chunked", "fits"),
    [(CAP, False, True), (CAP + 1, False, False), (CAP, True, True), (CAP + 1, True, False)],
)
async def test_the_byte_cap_is_exact(size: int, chunked: bool, fits: bool) -> None:
    """Declared or counted, by the smaller of the decoder's cap and the connector's."""

    async def handler(request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, size, 100):
                yield b"x" * min(100, size - start)

        return Response(body=pieces()) if chunked else Response(body=b"x" * size)

    async with MediaServer({"/a": handler}) as server:
        if fits:
            assert len(await fetch(server, "/a")) == size
        else:
            await fails(server, PayloadTooLargeError)
        await fails(server, PayloadTooLargeError, limits=Limits(max_download_bytes=CAP - 1))


async def test_a_declared_size_over_the_cap_is_refused_before_the_body() -> None:
    """The server never sends any; a client that waited for it would wait for ever."""

    async def handler(request: Request) -> Response:
        async def never() -> AsyncIterator[bytes]:
            await anyio.sleep_forever()
            yield b""

        return Response(headers={"Content-Length": str(10 << 30)}, body=never())

    async with MediaServer({"/a": handler}) as server:
        with anyio.fail_after(5):
            await fails(server, PayloadTooLargeError)


async def test_an_endless_body_is_cut_at_the_cap() -> None:
    sent = 0

    async def handler(request: Request) -> Response:
        async def endless() -> AsyncIterator[bytes]:
            nonlocal sent
            while True:
                sent += 1024
                yield b"x" * 1024

        return Response(body=endless())

    async with MediaServer({"/a": handler}) as server:
        await fails(server, PayloadTooLargeError)

    assert sent < 16 << 20  # what socket buffers take


@pytest.mark.parametrize(("pieces", "accepted"), [(4096, True), (4200, False)])
async def test_a_body_in_crumbs_is_given_up(pieces: int, accepted: bool) -> None:
    """Some megabytes of one-byte chunks would keep the loop busy for minutes, however many other tasks wait."""
    image = RawBytesMediaIO("image")

    async def crumbs(request: Request) -> bytes:
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * pieces + b"0\r\n\r\n"

    async with MediaServer({"/a": crumbs}) as server, MediaConnector(allowed_networks=LOOPBACK) as media:
        if accepted:
            assert len((await media.fetch_image(server.url("/a"), image)).data) == pieces
        else:
            with pytest.raises(UpstreamError, match="small pieces"):
                await media.fetch_image(server.url("/a"), image)


class Scripted:
    """A transport without a network, whose body comes at once."""

    @asynccontextmanager
    async def get(self, url: HttpUrl, extra: Headers = ()) -> AsyncIterator[Reply]:
        async def body() -> AsyncIterator[bytes]:
            for _ in range(4000):
                yield b"x"

        yield Reply(200, [], body())


async def test_others_get_their_turns_while_a_body_comes_in_crumbs() -> None:
    """One read of a socket holds thousands of small chunks, and taking them apart waits for nothing."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await checkpoint()

    url = parse_url("http://media.example/", max_length=100)
    assert isinstance(url, HttpUrl)
    async with anyio.create_task_group() as nursery:
        nursery.start_soon(count_turns)
        await checkpoint()
        before = turns
        downloaded = await Downloader(Scripted(), DomainRules.of(None), Limits()).download(url, BodyBuffer(10_000))
        assert len(downloaded.payload.data) == 4000
        assert turns - before > 4000 / 100
        nursery.cancel_scope.cancel()


BROKEN_ANSWERS = {
    "short": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
    "chunks cut": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
    "bad chunk size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabcde\r\n0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nab",
    "hexadecimal length": b"HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nab",
    "length of thirty digits": b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999999999999999999999\r\n\r\nab",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    "nothing": b"",
    "banner": b"SSH-2.0-OpenSSH_9.6\r\n",
    "old HTTP": b"just the payload",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/2": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    "switching": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",
    "NUL in a header": b"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\nab",
    "blank in a header's name": b"HTTP/1.1 200 OK\r\nX Y: a\r\nContent-Length: 2\r\n\r\nab",
    "megabyte header": b"HTTP/1.1 200 OK\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\nab",
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 100_000,
    "partial": b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/100\r\nContent-Length: 2\r\n\r\nab",
}


@pytest.mark.parametrize("answer", BROKEN_ANSWERS.values(), ids=BROKEN_ANSWERS)
async def test_a_broken_answer_is_an_upstream_failure(answer: bytes) -> None:
    async with raw(answer) as server:
        await fails(server, UpstreamError)


SOUND_ANSWERS = {
    "by length": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "by chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
    "to the end": b"HTTP/1.1 200 OK\r\n\r\nok",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\nok",
    "surplus": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, and more",
    "interim": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "repeated length": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "named identity": b"HTTP/1.1 200 OK\r\nContent-Encoding: Identity\r\nContent-Length: 2\r\n\r\nok",
    "an encoding of characters": b"HTTP/1.1 200 OK\r\nContent-Encoding: UTF-8\r\nContent-Length: 2\r\n\r\nok",
    "an encoding of mail": b"HTTP/1.1 200 OK\r\nContent-Encoding: binary\r\nContent-Length: 2\r\n\r\nok",
    "none": b"HTTP/1.1 200 OK\r\nContent-Encoding: none\r\nContent-Length: 2\r\n\r\nok",
    "an encoding of an upload": b"HTTP/1.1 200 OK\r\nContent-Encoding: aws-chunked\r\nContent-Length: 2\r\n\r\nok",
    "a media type": b"HTTP/1.1 200 OK\r\nContent-Encoding: image/png\r\nContent-Length: 2\r\n\r\nok",
    "an empty coding": b"HTTP/1.1 200 OK\r\nContent-Encoding:\r\nContent-Length: 2\r\n\r\nok",
    "a list of none": b"HTTP/1.1 200 OK\r\nContent-Encoding: identity, ,utf8\r\nContent-Length: 2\r\n\r\nok",
    "two headers of none": b"HTTP/1.1 200 OK\r\nContent-Encoding: none\r\nContent-Encoding: identity\r\n"
    b"Content-Length: 2\r\n\r\nok",
    "another type": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("answer", SOUND_ANSWERS.values(), ids=SOUND_ANSWERS)
async def test_a_sound_answer_is_taken(answer: bytes) -> None:
    async with raw(answer) as server:
        assert await fetch(server, "/a") == b"ok"


@pytest.mark.parametrize(
    "coding",
    ["gzip", "GZIP, gzip", "br", "deflate", "zstd", "x-unknown", "identity,gzip", "aws-chunked, br", "utf-8, X-Gzip"],
)
async def test_a_content_coding_is_refused_and_never_undone(coding: str) -> None:
    """Two kilobytes of nested gzip are a gigabyte; the request asked for none."""
    async with answering(headers={"Content-Encoding": coding}) as server:
        await fails(server, UpstreamError)

        assert server.requests[0].headers["accept-encoding"] == "identity"


async def test_an_empty_body_is_no_media() -> None:
    async with answering(body=b"") as server:
        await fails(server, UnprocessableMediaError)


@pytest.mark.parametrize("reset_after", [0, 3])
async def test_a_reset_is_an_upstream_failure(reset_after: int) -> None:
    async with MediaServer({"/a": b"payload"}, reset_after=reset_after) as server:
        await fails(server, UpstreamError)


async def test_a_server_that_is_gone_is_an_upstream_failure() -> None:
    async with MediaServer({}) as server:
        pass
    await fails(server, UpstreamError)


async def test_nothing_of_one_fetch_is_sent_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cookie, no credential, no proxy: all requests look alike, however the first was answered."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    async def first(request: Request) -> Response:
        return Response(302, {"Set-Cookie": "tenant=1; Path=/", "Location": "/challenge"})

    async def challenge(request: Request) -> Response:
        return Response(401, {"WWW-Authenticate": "Basic", "Set-Cookie": "tenant=2; Path=/"})

    async with MediaServer({"/a": first, "/challenge": challenge, "/b": b"payload"}) as server:
        async with MediaConnector(allowed_networks=LOOPBACK) as media:
            with pytest.raises(UnprocessableMediaError):
                await media.fetch_image(server.url("/a"), IMAGE)
            await media.fetch_image(server.url("/b"), IMAGE)

        assert len(server.requests) == 3
        for request in server.requests:
            assert set(request.headers) == {"host", "user-agent", "accept", "accept-encoding"}


async def test_a_target_reaches_the_server_byte_for_byte() -> None:
    async with MediaServer({"/a%2Fb.png": b"payload"}) as server:
        assert await fetch(server, "/a%2Fb.png?sig=%2B+'|../x#fragment") == b"payload"

        assert server.requests[0].target == "/a%2Fb.png?sig=%2B+'|../x"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_loopback_is_out_of_reach_by_default(host: str) -> None:
    """A name without a dot needs the real resolver, and an operator who opted into where it leads."""
    async with MediaServer({"/a": b"payload"}) as server:
        url = f"http://{host}:{server.port}/a"
        async with MediaConnector(allowed_ports=(server.port,)) as media:
            with pytest.raises(NotAllowedError):
                await media.fetch_image(url, IMAGE)
        assert server.requests == []

        async with MediaConnector(allowed_networks=("127.0.0.0/8", "::1/128")) as media:
            assert (await media.fetch_image(url, IMAGE)).data == b"payload"
