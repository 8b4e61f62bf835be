"""MP4s that differ from a given one in how they are written, not in what they hold."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import av


def remuxed(clip: bytes, muxer: str = "mp4", **options: str) -> bytes:
    """The same packets in another file."""
    with TemporaryDirectory() as folder:  # the muxer reads again what it wrote, to put the tables first
        path = Path(folder, "clip")
        _remux(clip, path, muxer, options)
        return path.read_bytes()


def _remux(clip: bytes, path: Path, muxer: str, options: dict[str, str]) -> None:
    with av.open(io.BytesIO(clip), "r") as source, av.open(str(path), "w", format=muxer, options=options) as target:
        streams = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = streams[packet.stream.index]
                target.mux(packet)


def patched(clip: bytes, box: bytes, place: int, layout: str, *values: int) -> bytes:
    """Other numbers in a box that there is one of, ``place`` bytes into its content."""
    assert clip.count(box) == 1
    changed = bytearray(clip)
    struct.pack_into(layout, changed, clip.index(box) + 4 + place, *values)
    return bytes(changed)


def box(name: bytes, payload: bytes) -> bytes:
    return (8 + len(payload)).to_bytes(4, "big") + name + payload


def with_wide_places(clip: bytes) -> bytes:
    """With places of chunks in eight bytes each; of one track, its tables behind what they tell of."""
    start = clip.index(b"stco") - 4
    size, _, _, count = struct.unpack_from(">I4sII", clip, start)
    places = struct.unpack_from(f">{count}I", clip, start + 16)
    wide = box(b"co64", struct.pack(f">II{count}Q", 0, count, *places))
    changed = bytearray(clip[:start] + wide + clip[start + size :])
    for parent in (b"moov", b"trak", b"mdia", b"minf", b"stbl"):
        place = clip.index(parent) - 4
        struct.pack_into(">I", changed, place, struct.unpack_from(">I", clip, place)[0] + len(wide) - size)
    return bytes(changed)
