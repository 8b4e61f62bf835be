"""``lazymedia probe``: what references contain, as far as it is known without a decode."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import anyio

from lazymedia.cli.options import limits, open_connector, usage_errors
from lazymedia.cli.show import print_error, size, table
from lazymedia.cli.sources import Outcome, Source, fetch_each, find
from lazymedia.errors import UnprocessableMediaError
from lazymedia.media import MediaIO, MediaRef, Payload
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.image import ImageMediaIO, probe
from lazymedia.media.video import VideoMediaIO


def run(arguments: Namespace) -> int:
    """Fetch the sources, several at once, and show each one's header, key and spec. The exit status is 1 where one
    failed.
    """
    sources, root = find(arguments.sources)
    outcomes = anyio.run(_probe, arguments, sources, root, backend=arguments.backend)
    for outcome in outcomes:
        if outcome.error is not None:
            print_error(f"error: {outcome.source}: {outcome.error}")
    if arguments.json:
        print(json.dumps([_as_dict(outcome) for outcome in outcomes]))
    else:
        heading = ("source", "bytes", "modality", "header", "key", "decode settings")
        print(table([heading, *(_row(outcome) for outcome in outcomes)]))
    return int(any(outcome.error is not None for outcome in outcomes))


def _as_dict(outcome: Outcome[dict[str, Any]]) -> dict[str, Any]:
    if outcome.value is None:
        return {"source": outcome.source, "error": outcome.error, "status": outcome.status}
    return {"source": outcome.source, **outcome.value}


def _row(outcome: Outcome[dict[str, Any]]) -> tuple[object, ...]:
    row = outcome.value
    if row is None:
        return _short(outcome.source), "", "", "failed", "", ""
    shown = _SHOWN[row["modality"]](row["header"]) if row["header"] else "unreadable"
    return _short(outcome.source), size(row["bytes"]), row["modality"], shown, row["key"][:16], json.dumps(row["spec"])


async def _probe(arguments: Namespace, sources: list[Source], root: str | None) -> list[Outcome[dict[str, Any]]]:
    decoders = _decoders(arguments.media_io_kwargs or {})
    async with open_connector(arguments, root) as media:

        async def probed(url: str) -> dict[str, Any]:
            chooser = _Chooser(decoders, arguments.modality)
            ref = await media.fetch_video(url, chooser)  # whose time limit is the longest
            return {
                "bytes": len(ref.data),
                "key": ref.key.hex(),
                "spec": ref.spec.settings,
                "modality": chooser.modality_found,
                "header": chooser.header,
            }

        return await fetch_each(sources, probed)


def _decoders(options: Mapping[str, Any]) -> dict[str, MediaIO[Any]]:
    kinds: dict[str, type[Any]] = {"image": ImageMediaIO, "video": VideoMediaIO, "audio": AudioMediaIO}
    with usage_errors():
        return {modality: kind(limits=limits(), **options.get(modality, {})) for modality, kind in kinds.items()}


class _Chooser(MediaIO[Any]):
    """Passes a payload to the decoder whose header it has, and keeps which that was.

    Args:
        decoders: By modality.
        modality: The one to use whatever the payload is; None to see.
    """

    def __init__(self, decoders: Mapping[str, MediaIO[Any]], modality: str | None) -> None:
        self._decoders = decoders
        self._candidates = tuple(decoders) if modality is None else (modality,)
        self.modality_found = self._candidates[0]
        self.header: dict[str, Any] | None = None

    def load_bytes(self, data: bytes) -> Any:
        return self._decoders[self.modality_found].load_bytes(data)

    def load_ref(self, payload: Payload) -> MediaRef[Any]:
        for modality in self._candidates:
            self.header = _header(self._decoders[modality], modality, payload.data)
            if self.header is not None:
                self.modality_found = modality
                break
        return self._decoders[self.modality_found].load_ref(payload)


def _header(decoder: MediaIO[Any], modality: str, data: bytes) -> dict[str, Any] | None:
    """What the payload's header says as media of one modality; None where it says nothing."""
    try:
        if modality == "image":
            return asdict(probe(data))
        found = decoder.load_bytes_ref(data).probe()
    except UnprocessableMediaError:
        return None
    return None if found is None else asdict(found)


def _picture(header: Mapping[str, Any]) -> str:
    return f"{header['format']} {header['width']} x {header['height']}"


def _video(header: Mapping[str, Any]) -> str:
    frames = f"{header['total_num_frames']} frames, {len(header['frames_indices'])} of them wanted"
    return f"{header['width']} x {header['height']}, {header['duration']:.2f} s, {frames}"


def _audio(header: Mapping[str, Any]) -> str:
    length = "length unknown" if header["samples"] is None else f"{header['samples'] / header['rate']:.2f} s"
    return f"{header['rate']} Hz, {header['channels']} channel(s), {length}"


_SHOWN = {"image": _picture, "video": _video, "audio": _audio}


def _short(source: str) -> str:
    return source if len(source) <= 48 else f"{source[:30]}…{source[-15:]}"


__all__ = ["run"]
