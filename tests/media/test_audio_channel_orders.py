"""A container that lists the order of its channels: read like any other. PyAV frees such a list once too often."""

from __future__ import annotations

import gc
import io
import struct

import av
import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.audio import AudioMediaIO, ffmpeg_frames
from lazymedia.testing.audio import make_audio

ORDERS = {
    "right before left": (2, 1),
    "left twice": (1, 1),
    "unknown": (0xFFFF, 0xFFFF),
    "discrete": (0x10005, 0x10009),
}


def chan(labels: tuple[int, ...]) -> bytes:
    """A box that describes each channel. Apple, QuickTime File Format, audio channel layout atom."""
    rows = b"".join(struct.pack(">IIfff", label, 0, 0, 0, 0) for label in labels)
    content = struct.pack(">IIII", 0, 0, 0, len(labels)) + rows
    return struct.pack(">I", 8 + len(content)) + b"chan" + content


def with_description(clip: bytes, extra: bytes) -> bytes:
    """A box more at the end of the only sample description; the tables are behind the sound."""
    entry = clip.index(b"stsd") + 12
    end = entry + int.from_bytes(clip[entry : entry + 4])
    grown = bytearray(clip[:end] + extra + clip[end:])
    for place in (entry, *(clip.index(box) - 4 for box in (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd"))):
        struct.pack_into(">I", grown, place, int.from_bytes(clip[place : place + 4]) + len(extra))
    return bytes(grown)


@pytest.mark.parametrize("format_", ["M4A", "MOV"])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_an_order_of_its_own_changes_no_sample_however_often_it_is_read(format_: str, order: tuple[int, ...]) -> None:
    clip = make_audio(1, 16_000, 2, format=format_)
    listed = with_description(clip.replace(b"chan", b"free"), chan(order))
    want, _ = AudioMediaIO().load_bytes(clip)

    for _ in range(3):
        ref = AudioMediaIO().load_bytes_ref(listed)
        assert ref.probe() is not None
        assert np.array_equal(ref.decode()[0], want)


def test_frames_that_come_with_a_list_are_rejected_and_it_is_not_freed_twice() -> None:
    """No encoder here writes what a decoder makes such frames of; a container's list gives them the same one."""
    listed = with_description(make_audio(1, 16_000, 2, format="MOV").replace(b"chan", b"free"), chan((2, 1)))
    for _ in range(3):
        with av.open(io.BytesIO(listed), "r") as container:
            packet = next(container.demux(audio=0))
            frames = packet.decode()
            assert frames
            with pytest.raises(UnprocessableMediaError, match="order of channels"):
                ffmpeg_frames._reject_listed(frames)
            del frames
            gc.collect()


@pytest.mark.parametrize("size", [0x38337DC1, 0x3FFFFFFF, 0x7FFFFFFF])
def test_frames_larger_than_memory_are_the_payloads_fault(size: int) -> None:
    clip = bytearray(make_audio(0.5, 24_000, 1, format="M4A"))
    struct.pack_into(">I", clip, clip.index(b"stsz") + 8, size)

    with pytest.raises(UnprocessableMediaError):
        AudioMediaIO().load_bytes(bytes(clip))
