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

from lazymedia.cli.options import as_urls, connector_options
from lazymedia.cli.show import size, table


def run(arguments: Namespace) -> None:
    """Fetch each source, in order, and write it."""
    urls, root = as_urls(arguments.sources)
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    payloads = anyio.run(_fetch, arguments, urls, root, backend=arguments.backend)
    written = [(_write(folder, payload), len(payload)) for payload in payloads]
    if arguments.json:
        print(json.dumps([{"file": str(path), "bytes": count} for path, count in written]))
        return
    print(table([("file", "bytes"), *((path, size(count)) for path, count in written)]))


async def _fetch(arguments: Namespace, urls: list[str], root: str | None) -> list[bytes]:
    from lazymedia.fetch import MediaConnector
    from lazymedia.media.raw import RawBytesMediaIO

    raw: Any = RawBytesMediaIO("media")
    async with MediaConnector(**connector_options(arguments, root)) as media:
        return [(await media.load_from_url(url, raw)).data for url in urls]


def _write(folder: Path, payload: bytes) -> Path:
    path = folder / f"{hashlib.sha256(payload).hexdigest()[:32]}.bin"
    path.write_bytes(payload)
    return path


__all__ = ["run"]
