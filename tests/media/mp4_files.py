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
    """With places of chunks in eight bytes each; of one track."""
    start = clip.index(b"stco") - 4
    (count,) = struct.unpack_from(">I", clip, start + 12)
    places = struct.unpack_from(f">{count}I", clip, start + 16)
    return with_table(clip, b"stco", box(b"co64", struct.pack(f">II{count}Q", 0, count, *places)))


def with_table(clip: bytes, name: bytes, new: bytes) -> bytes:
    """With another box for the only one of a type among the tables, which lie behind the samples."""
    start = clip.index(name) - 4
    size = int.from_bytes(clip[start : start + 4])
    changed = bytearray(clip[:start] + new + clip[start + size :])
    for parent in (b"moov", b"trak", b"mdia", b"minf", b"stbl"):
        place = clip.index(parent) - 4
        struct.pack_into(">I", changed, place, struct.unpack_from(">I", clip, place)[0] + len(new) - size)
    return bytes(changed)


def joined(*clips: bytes) -> bytes:
    """Clips of video one behind the other in one track, each with a sample description of its own."""
    made, counts, entries, shift = io.BytesIO(), [], [], 0
    with av.open(made, "w", format="mp4") as target:
        track = None
        for clip in clips:
            start = clip.index(b"stsd") - 4
            entries.append(clip[start + 16 : start + int.from_bytes(clip[start : start + 4])])
            with av.open(io.BytesIO(clip), "r") as source:
                stream = source.streams.video[0]
                track = track or target.add_stream_from_template(stream)
                packets = [packet for packet in source.demux(stream) if packet.dts is not None]
                for packet in packets:
                    packet.pts, packet.dts = (packet.pts or 0) + shift, (packet.dts or 0) + shift
                    packet.stream = track
                    target.mux(packet)
                counts.append(len(packets))
                shift += len(packets) * (packets[0].duration or 0)
    clip = made.getvalue()
    with av.open(io.BytesIO(clip), "r") as source:
        places = [entry.pos for entry in source.streams.video[0].index_entries]
    firsts = [1 + sum(counts[:number]) for number in range(len(counts))]
    runs = [number for first, place in zip(firsts, range(1, 1 + len(firsts))) for number in (first, 1, place)]
    tables = {
        b"stsd": struct.pack(">II", 0, len(entries)) + b"".join(entries),
        b"stsc": struct.pack(f">II{len(runs)}I", 0, len(firsts), *runs),
        b"stco": struct.pack(f">II{len(places)}I", 0, len(places), *places),
    }
    for name, content in tables.items():
        clip = with_table(clip, name, box(name, content))
    return clip
