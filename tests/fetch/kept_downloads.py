"""What the tests of the download cache have in common: one download, a clock set by hand, and the cache's files."""

from __future__ import annotations

from pathlib import Path

from lazymedia import DownloadCache

URL = "http://example.com/a.png"
FINAL = "https://cdn.example.com/b.png"
BODY = b"the body of a picture"
NOW = 1_800_000_000.0
HOUR = 3600.0


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def headers(body: bytes = BODY, control: str = "max-age=60", etag: str | None = '"v1"') -> list[tuple[bytes, bytes]]:
    pairs = [(b"Content-Length", b"%d" % len(body)), (b"Cache-Control", control.encode())]
    return pairs if etag is None else [*pairs, (b"ETag", etag.encode())]


def put(cache: DownloadCache, url: str = URL, body: bytes = BODY, control: str = "max-age=60") -> None:
    cache.put(url, body, final_url=FINAL, headers=headers(body, control))


def body_of(cache: DownloadCache, url: str = URL) -> bytes | None:
    found = cache.get(url)
    return None if found is None else found.data


def files(folder: Path, kind: str = "") -> list[Path]:
    return sorted(path for path in folder.glob(f"[0-9a-f][0-9a-f]/*{kind}"))


def the_entry(folder: Path) -> Path:
    (path,) = files(folder, ".entry")
    return path
