"""``lazymedia fetch``: encoded media into a folder.

A file is named by its digest and by what its bytes are, never by anything that a URL says.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from lazymedia.cli.options import open_connector, usage_errors
from lazymedia.cli.show import print_error, size, table
from lazymedia.cli.sources import Outcome, Source, fetch_each, find
from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.image import probe
from lazymedia.media.raw import RawBytesMediaIO


def run(arguments: Namespace) -> int:
    """Fetch the sources, several at once, and write each as it arrives. The exit status is 1 where one failed."""
    sources, root = find(arguments.sources)
    folder = Path(arguments.output)
    with usage_errors():
        folder.mkdir(parents=True, exist_ok=True)
    outcomes = anyio.run(_fetch, arguments, sources, root, folder, backend=arguments.backend)
    _show(outcomes, as_json=arguments.json)
    return int(any(outcome.error is not None for outcome in outcomes))


async def _fetch(
    arguments: Namespace, sources: list[Source], root: str | None, folder: Path
) -> list[Outcome[tuple[Path, int]]]:
    raw: Any = RawBytesMediaIO("media")
    async with open_connector(arguments, root) as media:

        async def fetch(url: str) -> tuple[Path, int]:
            payload = (await media.load_from_url(url, raw)).data
            return await anyio.to_thread.run_sync(partial(_write, folder, payload))

        return await fetch_each(sources, fetch)


def _write(folder: Path, payload: bytes) -> tuple[Path, int]:
    """Write a file whole or not at all. A symbolic link that stands where it belongs is replaced, not followed."""
    path = folder / f"{hashlib.sha256(payload).hexdigest()}{_suffix(payload)}"
    part = folder / f".{secrets.token_hex(8)}.part"
    try:
        with part.open("xb") as file:
            file.write(payload)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return path, len(payload)


def _suffix(payload: bytes) -> str:
    """By what the bytes are, never by what a URL says they are."""
    try:
        return f".{probe(payload).format.lower()}"
    except UnprocessableMediaError:
        return ".bin"


def _show(outcomes: list[Outcome[tuple[Path, int]]], *, as_json: bool) -> None:
    found: list[dict[str, Any]] = []
    rows: list[tuple[object, ...]] = [("source", "outcome", "bytes", "file")]
    for outcome in outcomes:
        if outcome.value is None:
            found.append({"source": outcome.source, "error": outcome.error, "status": outcome.status})
            rows.append((outcome.source, "failed", "", ""))
            print_error(f"error: {outcome.source}: {outcome.error}")
        else:
            path, count = outcome.value
            found.append({"source": outcome.source, "file": str(path), "bytes": count})
            rows.append((outcome.source, "fetched", size(count), path))
    print(json.dumps(found) if as_json else table(rows))


__all__ = ["run"]
