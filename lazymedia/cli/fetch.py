"""``lazymedia fetch``: encoded media into a folder, named by what they contain.

Comes in: URLs and files. Goes out: a file for each, and a row that says where it lies. Never here: a decode; a file's
name is made of its digest, never of anything that a URL says.
"""

from __future__ import annotations

import hashlib
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import anyio

from lazymedia.cli.options import as_urls, open_connector, usage_errors
from lazymedia.cli.show import size, table
from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.image import probe


def run(arguments: Namespace) -> None:
    """Fetch each source, in order, and write it."""
    urls, root = as_urls(arguments.sources)
    folder = Path(arguments.output)
    with usage_errors():
        folder.mkdir(parents=True, exist_ok=True)
    written = anyio.run(_fetch, arguments, urls, root, folder, backend=arguments.backend)
    if arguments.json:
        print(json.dumps([{"file": str(path), "bytes": count} for path, count in written]))
        return
    print(table([("file", "bytes"), *((path, size(count)) for path, count in written)]))


async def _fetch(arguments: Namespace, urls: list[str], root: str | None, folder: Path) -> list[tuple[Path, int]]:
    from lazymedia.fetch import MediaConnector
    from lazymedia.media.raw import RawBytesMediaIO

    raw: Any = RawBytesMediaIO("media")
    connector: MediaConnector = open_connector(arguments, root)
    async with connector as media:
        return [_write(folder, (await media.load_from_url(url, raw)).data) for url in urls]


def _write(folder: Path, payload: bytes) -> tuple[Path, int]:
    path = folder / f"{hashlib.sha256(payload).hexdigest()}{_suffix(payload)}"
    path.write_bytes(payload)
    return path, len(payload)


def _suffix(payload: bytes) -> str:
    """By what the bytes are, never by what a URL says they are."""
    try:
        return f".{probe(payload).format.lower()}"
    except UnprocessableMediaError:
        return ".bin"


__all__ = ["run"]
