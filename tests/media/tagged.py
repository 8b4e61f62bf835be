"""Clips with any number of tags, by FFmpeg's own muxers where those write any name."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from typing import Any

import av


def tagged(clip: bytes, muxer: str, tags: Mapping[str, str], **options: str) -> bytes:
    """The first stream of a clip in another file, with tags of the whole file."""
    buffer = io.BytesIO()
    with av.open(io.BytesIO(clip), "r") as source, av.open(buffer, "w", format=muxer, options=options) as output:
        first: Any = source.streams[0]
        stream = output.add_stream_from_template(first)
        output.metadata.update(tags)
        for packet in source.demux(first):
            if packet.size:
                packet.stream = stream
                output.mux(packet)
    return buffer.getvalue()


def id3(texts: Mapping[str, str]) -> bytes:
    """A tag of version 2.3. ID3v2.3, sections 3.1 and 4.2.2."""
    bodies = [b"\0%b\0%b" % (name.encode(), text.encode()) for name, text in texts.items()]
    frames = b"".join(b"TXXX" + struct.pack(">LH", len(body), 0) + body for body in bodies)
    return b"ID3\x03\0\0" + bytes(len(frames) >> shift & 0x7F for shift in (21, 14, 7, 0)) + frames


def in_riff(clip: bytes, name: bytes, content: bytes) -> bytes:
    """A WAV or AVI with one more chunk at its start."""
    body = clip[8:12] + name + struct.pack("<L", len(content)) + content + bytes(len(content) & 1) + clip[12:]
    return clip[:4] + struct.pack("<L", len(body)) + body


def notes(count: int) -> bytes:
    """The content of a list of notes, each of another name."""
    return b"INFO" + b"".join(b"%04d" % number + struct.pack("<L", 2) + b"v\0" for number in range(count))


__all__ = ["id3", "in_riff", "notes", "tagged"]
