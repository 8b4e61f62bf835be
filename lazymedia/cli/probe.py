"""``lazymedia probe``: what a reference knows of media without decoding them.

Comes in: URLs and files. Goes out: a row for each. Never here: a decode.
"""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict
from typing import Any

import anyio

from lazymedia.cli.options import as_urls, limits, open_connector, usage_errors
from lazymedia.cli.show import size, table


def run(arguments: Namespace) -> None:
    """Fetch each source, in order, and show its header, key and spec."""
    urls, root = as_urls(arguments.sources)
    found = anyio.run(_probe, arguments, urls, root, backend=arguments.backend)
    if arguments.json:
        print(json.dumps(found))
        return
    rows: list[tuple[object, ...]] = [("source", "bytes", "format", "stored size", "key", "decode settings")]
    for source, row in zip(arguments.sources, found):
        header = row["header"]
        shown = (header["format"], f"{header['width']} x {header['height']}") if header else ("unreadable", "?")
        rows.append((_short(source), size(row["bytes"]), *shown, row["key"][:16], json.dumps(row["spec"])))
    print(table(rows))


async def _probe(arguments: Namespace, urls: list[str], root: str | None) -> list[dict[str, Any]]:
    from lazymedia.errors import UnprocessableMediaError
    from lazymedia.fetch import MediaConnector
    from lazymedia.media.image import ImageMediaIO, probe

    with usage_errors():
        image_io = ImageMediaIO(limits=limits(), **(arguments.media_io_kwargs or {}).get("image", {}))
    connector: MediaConnector = open_connector(arguments, root)
    found = []
    async with connector as media:
        for url in urls:
            ref = await media.fetch_image(url, image_io)
            try:
                header = asdict(probe(ref.data))
            except UnprocessableMediaError:
                header = None
            found.append({"bytes": len(ref.data), "key": ref.key.hex(), "spec": ref.spec.settings, "header": header})
    return found


def _short(source: str) -> str:
    return source if len(source) <= 48 else f"{source[:30]}…{source[-15:]}"


__all__ = ["run"]
