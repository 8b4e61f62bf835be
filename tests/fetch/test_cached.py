"""A connector with a cache on disk: what is asked, what is not, and by which rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from lazymedia.errors import NotAllowedError, PayloadTooLargeError, UnprocessableMediaError, UpstreamError
from lazymedia.fetch import MediaConnector
from lazymedia.fetch.disk_cache.cache import DownloadCache
from lazymedia.fetch.policy.address import AddressPolicy
from lazymedia.fetch.policy.url import HttpUrl
from lazymedia.fetch.transport.resolve import Resolver
from lazymedia.limits import Limits
from lazymedia.media import MediaRef
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.server import Handler, MediaServer, Request, Response

LOOPBACK = ("127.0.0.0/8",)
IMAGE = RawBytesMediaIO("image")
FRESH = {"Cache-Control": "max-age=60"}
ASK = {"Cache-Control": "no-cache", "ETag": '"v1"'}


class Versions:
    """Answers with one version of a body, and with 304 to who has it."""

    def __init__(self, headers: Mapping[str, str], body: bytes = b"payload") -> None:
        self.headers = dict(headers)
        self.body = body

    async def __call__(self, request: Request) -> Response:
        if request.headers.get("if-none-match") == self.headers.get("ETag", ""):
            return Response(304, self.headers)
        return Response(200, self.headers, self.body)


@asynccontextmanager
async def connector(folder: Path, **settings: object) -> AsyncIterator[MediaConnector]:
    """What it stored is stored when it has been left."""
    given: dict[str, object] = {"allowed_networks": LOOPBACK, "download_cache": DownloadCache(folder)}
    async with MediaConnector(**given | settings) as media:  # type: ignore[arg-type]  # of a table
        yield media


async def fetch(server: MediaServer, folder: Path, path: str = "/a", **settings: object) -> bytes:
    async with connector(folder, **settings) as media:
        return (await media.fetch_image(server.url(path), IMAGE)).data


async def test_a_fresh_download_is_not_downloaded_again(tmp_path: Path) -> None:
    async with MediaServer({"/a": Versions(FRESH)}) as server:
        for _ in range(3):
            assert await fetch(server, tmp_path) == b"payload"
        assert server.hits["/a"] == 1


async def test_a_stale_one_is_asked_about_and_used_while_it_holds(tmp_path: Path) -> None:
    versions = Versions(ASK)
    async with MediaServer({"/a": versions}) as server:
        for _ in range(3):
            assert await fetch(server, tmp_path) == b"payload"
        assert [request.headers.get("if-none-match") for request in server.requests] == [None, '"v1"', '"v1"']
        versions.headers["ETag"], versions.body = '"v2"', b"another"
        assert await fetch(server, tmp_path) == b"another"
        assert await fetch(server, tmp_path) == b"another"
        assert server.requests[-1].headers["if-none-match"] == '"v2"'


async def test_a_304_that_names_a_time_spares_the_next_question(tmp_path: Path) -> None:
    versions = Versions(ASK)
    async with MediaServer({"/a": versions}) as server:
        await fetch(server, tmp_path)
        versions.headers["Cache-Control"] = "max-age=60"
        for _ in range(3):
            assert await fetch(server, tmp_path) == b"payload"
        assert server.hits["/a"] == 2


async def test_a_304_that_was_not_asked_for_is_no_media(tmp_path: Path) -> None:
    async def unchanged(request: Request) -> Response:
        return Response(304)

    async with MediaServer({"/a": unchanged}) as server:
        with pytest.raises(UnprocessableMediaError):
            await fetch(server, tmp_path)


@pytest.mark.parametrize("headers", [{}, {"Cache-Control": "no-store, max-age=60"}])
async def test_what_may_not_be_kept_is_not(headers: dict[str, str], tmp_path: Path) -> None:
    async with MediaServer({"/a": Versions(headers)}) as server:
        for _ in range(2):
            await fetch(server, tmp_path)
        assert server.hits["/a"] == 2


async def test_what_was_refused_is_not_stored(tmp_path: Path) -> None:
    class RefusingIO(RawBytesMediaIO):
        def load_bytes_ref(self, data: bytes) -> MediaRef[bytes]:
            raise UnprocessableMediaError("not this")

    async with MediaServer({"/a": Versions(FRESH)}) as server:
        for _ in range(2):
            async with connector(tmp_path) as media:
                with pytest.raises(UnprocessableMediaError, match="not this"):
                    await media.fetch_image(server.url("/a"), RefusingIO("image"))
        assert server.hits["/a"] == 2
        assert DownloadCache(tmp_path).size() == 0


BROKEN: dict[str, bytes] = {
    "short": b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 100\r\n\r\nshort",
    "unframed": b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\nperhaps cut",
    "failed": b"HTTP/1.1 500 X\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nno",
    "missing": b"HTTP/1.1 404 X\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nno",
}


@pytest.mark.parametrize("name", BROKEN)
async def test_nothing_is_stored_of_what_failed_or_may_be_cut(name: str, tmp_path: Path) -> None:
    async def answer(request: Request) -> bytes:
        return BROKEN[name]

    async with MediaServer({"/a": answer}) as server:
        async with connector(tmp_path, limits=Limits(max_retries=0)) as media:
            try:
                await media.fetch_image(server.url("/a"), IMAGE)
            except (UpstreamError, UnprocessableMediaError):
                assert name != "unframed"
        assert DownloadCache(tmp_path).size() == 0


async def test_a_continued_body_is_stored_with_the_headers_that_it_began_with(tmp_path: Path) -> None:
    answers = iter(
        [
            b'HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: "x"\r\nContent-Length: 7\r\n\r\npay',
            b'HTTP/1.1 206 X\r\nETag: "x"\r\nContent-Range: bytes 3-6/7\r\nContent-Length: 4\r\n\r\nload',
        ]
    )

    async def answer(request: Request) -> bytes:
        return next(answers)

    async with MediaServer({"/a": answer}) as server:
        for _ in range(2):
            assert await fetch(server, tmp_path, limits=Limits(retry_backoff=0)) == b"payload"
        assert server.hits["/a"] == 2


async def test_rules_are_asked_before_the_cache_is(tmp_path: Path) -> None:
    async with MediaServer({"/a": Versions(FRESH)}) as server:
        await fetch(server, tmp_path)
        for settings in ({"allowed_media_domains": ["example.com"]}, {"allowed_networks": ()}):
            with pytest.raises(NotAllowedError):
                await fetch(server, tmp_path, **settings)
        assert server.hits["/a"] == 1


async def test_where_a_download_came_from_in_the_end_is_held_against_todays_rules(tmp_path: Path) -> None:
    """Its own URL may still be asked; what answers it today is checked then."""
    async with MediaServer({"/b": Versions(FRESH)}) as target:
        places = iter([target.url("/b"), "/own"])

        async def way(request: Request) -> Response:
            return Response(302, {"Location": next(places), **FRESH})

        async with MediaServer({"/a": way, "/own": Versions(FRESH, b"own")}) as server:
            for _ in range(2):
                assert await fetch(server, tmp_path) == b"payload"
            assert (server.hits["/a"], target.hits["/b"]) == (1, 1)
            only_here = [f"127.0.0.1:{server.port}"]
            assert await fetch(server, tmp_path, allowed_media_domains=only_here) == b"own"
            assert (server.hits["/a"], target.hits["/b"]) == (2, 1)


async def test_validators_go_to_where_the_download_came_from_and_nowhere_else(tmp_path: Path) -> None:
    places = iter(["/b", "/c"])

    async def way(request: Request) -> Response:
        return Response(302, {"Location": next(places)})

    routes: dict[str, bytes | Handler] = {"/a": way, "/b": Versions(ASK), "/c": Versions(ASK, b"another")}
    async with MediaServer(routes) as server:
        assert await fetch(server, tmp_path) == b"payload"
        assert await fetch(server, tmp_path) == b"another", "the same validator, of something else"
        assert not any("if-none-match" in request.headers for request in server.requests)


async def test_a_cap_holds_for_what_is_on_the_disk(tmp_path: Path) -> None:
    async with MediaServer({"/a": Versions(FRESH)}) as server:
        await fetch(server, tmp_path)
        async with connector(tmp_path) as media:
            with pytest.raises(PayloadTooLargeError):
                await media.fetch_image(server.url("/a"), RawBytesMediaIO("image", limits=Limits(max_image_bytes=3)))
        assert server.hits["/a"] == 1


async def test_a_shared_download_is_stored_once(tmp_path: Path) -> None:
    puts: list[str] = []

    class Counting(DownloadCache):  # type: ignore[misc]  # final for others
        def put(self, url: str, *args: object, **more: object) -> None:
            puts.append(url)

    async with MediaServer({"/a": Versions(FRESH)}) as server:
        async with connector(tmp_path, download_cache=Counting(tmp_path)) as media:
            async with anyio.create_task_group() as nursery:
                for _ in range(5):
                    nursery.start_soon(media.fetch_image, server.url("/a"), IMAGE)
        assert server.hits["/a"] == 1
        assert len(puts) == 1


async def test_a_fetch_that_is_cancelled_while_the_disk_is_read_leaves_nothing(tmp_path: Path) -> None:
    async with MediaServer({"/a": Versions(FRESH)}) as server:
        await fetch(server, tmp_path)
        async with connector(tmp_path) as media:
            for _ in range(20):
                with anyio.move_on_after(0):
                    await media.fetch_image(server.url("/a"), IMAGE)
            assert len(media._owned.flights) == 0
            assert media._owned.files.borrowed_tokens == 0
            assert (await media.fetch_image(server.url("/a"), IMAGE)).data == b"payload"


def test_what_is_no_cache_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="PosixPath"):
        MediaConnector(download_cache=tmp_path)  # type: ignore[arg-type]  # a likely mistake


NAMES = {"inside": "127.0.0.1", "outside": "127.0.0.1", "other.example": "127.0.0.1"}


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A resolver of the test's own, for every connector."""
    found = dict(NAMES)
    monkeypatch.setattr(Resolver.__init__, "__defaults__", (lambda host: [found[host]], Limits()))
    return found


POLICIES: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "a network": ({}, {"allowed_networks": ["10.0.0.0/8"]}),
    "all networks": ({}, {"allowed_networks": ()}),
    "the name's address": ({}, {"allowed_networks": ["127.0.0.2/32"]}),
    "a domain": ({}, {"allowed_media_domains": ["outside", "127.0.0.1"]}),
    "a domain that is denied": ({}, {"denied_media_domains": ["inside"]}),
}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("redirected", [False, True], ids=["direct", "on the way"])
async def test_what_a_name_led_to_is_held_against_todays_rules(
    name: str, redirected: bool, tmp_path: Path, names: dict[str, str]
) -> None:
    """The download is in the folder, and its host is a name. A name resolved again could lead anywhere by now."""
    before, after = POLICIES[name]
    way = iter([302])

    async def lead_on(request: Request) -> Response:
        return Response(next(way), {"Location": server.url("/b"), **FRESH})

    async with MediaServer({"/a": lead_on if redirected else Versions(FRESH), "/b": Versions(FRESH)}) as server:
        url = f"http://inside:{server.port}/a"
        for _ in range(2):
            async with connector(tmp_path, **before) as media:
                assert (await media.fetch_image(url, IMAGE)).data == b"payload"
        hits = server.hits.copy()
        names["inside"] = "127.0.0.3"  # rejected by the network, not by the domains
        async with connector(tmp_path, **after) as media:
            with pytest.raises(NotAllowedError):
                await media.fetch_image(url, IMAGE)
        assert server.hits == hits


async def test_a_port_that_is_no_longer_allowed_is_not_served_from_the_folder(
    tmp_path: Path, names: dict[str, str]
) -> None:
    policy = AddressPolicy.of((), (80, 8080))
    cache = DownloadCache(tmp_path)
    url = HttpUrl("http", "other.example", 8080, "/a")
    cache.put(
        url.text,
        b"payload",
        final_url=url.text,
        headers=[(b"content-length", b"7"), (b"cache-control", b"max-age=60")],
        way=[f"93.184.216.34 http://{url.netloc}/"],
    )
    async with MediaConnector(download_cache=cache, allowed_ports=policy.ports) as media:
        assert (await media.fetch_image(url.text, IMAGE)).data == b"payload"
    async with MediaConnector(download_cache=cache) as media:
        with pytest.raises(NotAllowedError):
            await media.fetch_image(url.text, IMAGE)


@pytest.mark.parametrize("way", [["10.0.0.1 http://other.example/"], ["- http://other.example/"], ["nonsense"], [""]])
async def test_an_address_that_may_not_be_dialled_today_makes_a_miss(
    way: list[str], tmp_path: Path, names: dict[str, str]
) -> None:
    """Also one that is not known, because a client of somebody's own was asked: it may connect anywhere."""
    cache = DownloadCache(tmp_path)
    url = "http://other.example/a"
    headers = [(b"content-length", b"7"), (b"cache-control", b"max-age=60")]
    cache.put(url, b"payload", final_url=url, headers=headers, way=["93.184.216.34 http://other.example/", *way])
    async with MediaConnector(download_cache=cache) as media:
        with pytest.raises(NotAllowedError):  # of the name, which leads to this machine now
            await media.fetch_image(url, IMAGE)


async def test_what_a_client_of_ones_own_downloaded_is_for_such_clients(tmp_path: Path, names: dict[str, str]) -> None:
    async with MediaServer({"/a": Versions(FRESH)}) as server, httpx2.AsyncClient() as client:
        for _ in range(2):
            assert await fetch(server, tmp_path, client=client, trust_client=True) == b"payload"
        assert server.hits["/a"] == 1
        assert await fetch(server, tmp_path) == b"payload"
        assert server.hits["/a"] == 2, "a connector that checks addresses asks anew"
