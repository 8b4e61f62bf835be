"""Second fields of H.264 are told by the bits of parameters and slices, and bytes without sense are none."""

from __future__ import annotations

import io
import random

import av
import pytest

from lazymedia.media.video.interlaced import FieldPairs
from lazymedia.testing.video import make_video
from tests.media.bits import Bits, unit
from tests.media.odd_clips import in_fields


def sequence(
    *,
    order: int = 2,
    profile: int = 77,
    planes: bool = False,
    fields: bool = True,
    number_bits: int = 4,
    cycles: int = 2,
) -> bytes:
    bits = Bits().put(profile, 8).put(0, 8).put(30, 8).code(0)
    if profile == 244:
        bits.code(3).put(planes, 1).code(0).code(0).put(0, 1).put(1, 1)
        for size in (*(16,) * 6, *(64,) * 6):
            bits.put(1, 1)
            for delta in range(size):
                bits.code(0 if delta else 1)  # the first is one more than 8, the others like it
    bits.code(number_bits - 4).code(order)
    if order == 0:
        bits.code(4)
    elif order == 1:
        bits.put(0, 1).code(3).code(4).code(cycles)
        for cycle in range(cycles):
            bits.code(5 + cycle % 2)
    bits.code(1).put(0, 1).code(7).code(1).put(not fields, 1)
    return unit(0x67, bits.put(0, 4).closed())


PICTURE = unit(0x68, Bits().code(0).code(0).put(0, 2).closed())


def slice_(number: int, parity: int | None, *, number_bits: int = 4, planes: bool = False, kind: int = 0x41) -> bytes:
    bits = Bits().code(0).code(7).code(0)
    if planes:
        bits.put(0, 2)
    bits.put(number, number_bits)
    return unit(kind, (bits.put(0, 1) if parity is None else bits.put(1, 1).put(parity, 1)).put(0, 16).closed())


def told(parameters: bytes, *packets: bytes) -> list[bool]:
    pairs = FieldPairs(parameters)
    return [pairs.is_second(packet) for packet in packets]


SEQUENCES = {
    "Main": {},
    "times of their own": {"order": 0},
    "times by cycles": {"order": 1},
    "long numbers": {"number_bits": 16},
    "High 4:4:4": {"profile": 244},
    "High 4:4:4, colours apart": {"profile": 244, "planes": True},
}


@pytest.mark.parametrize("kind", SEQUENCES)
def test_fields_of_one_number_and_both_parities_are_a_pair(kind: str) -> None:
    options = SEQUENCES[kind]
    parameters = sequence(**options) + PICTURE  # type: ignore[arg-type]  # from a table
    layout = {name: value for name, value in options.items() if name in {"number_bits", "planes"}}
    order = [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (3, 0), (3, 1), (3, 0), (3, 1), (4, None), (4, 0), (5, 1), (5, 0)]

    packets = [slice_(*which, **layout) for which in order]  # type: ignore[arg-type]  # from a table

    assert [frame_index for frame_index, second in enumerate(told(parameters, *packets)) if second] == [1, 3, 6, 8, 12]


def test_parameters_may_come_with_the_first_packet() -> None:
    delimiter, message = unit(0x09, b"\x10"), unit(0x06, bytes(300))
    first = delimiter + sequence() + PICTURE + message + slice_(0, 0, kind=0x65)

    assert told(b"", first, delimiter + slice_(0, 1)) == [False, True]


def test_without_fields_nothing_is_read() -> None:
    assert told(sequence(fields=False) + PICTURE, *[slice_(0, parity) for parity in (0, 1, 0)]) == [False] * 3
    assert told(b"", slice_(0, 0), slice_(0, 1)) == [False] * 2


@pytest.mark.parametrize("lengths", [False, True])
def test_a_packet_of_many_empty_units_is_not_read_to_its_end(*, lengths: bool) -> None:
    sets = sequence()[4:], PICTURE[4:]
    # lengths of one byte
    avcc = b"\1\x4d\0\x1e\xfc" + b"".join(b"\1" + len(part).to_bytes(2, "big") + part for part in sets)
    parameters, empty = (avcc, b"\0") if lengths else (sequence() + PICTURE, b"\0\0\1")
    first, second = (slice_(0, parity)[4:] for parity in (0, 1))

    def before(part: bytes) -> bytes:
        return (bytes([len(part)]) if lengths else b"\0\0\1") + part

    assert told(parameters, before(first), 10 * empty + before(second)) == [False, True]
    assert told(parameters, before(first), 1000 * empty + before(second)) == [False, False]


def test_a_parameter_set_of_many_codes_is_not_read_to_its_end() -> None:
    fields = slice_(0, 0), slice_(0, 1)
    assert told(sequence(order=1, cycles=200) + PICTURE, *fields) == [False, True]
    assert told(sequence(order=1, cycles=20_000) + PICTURE, *fields) == [False, False]


@pytest.mark.parametrize("interlaced", [False, True])
def test_frames_are_no_pairs_even_where_fields_are_allowed(*, interlaced: bool) -> None:
    data = make_video(20, options={"flags": "+ilme+ildct"} if interlaced else {})
    with av.open(io.BytesIO(data), "r") as container:
        pairs = FieldPairs(container.streams.video[0].codec_context.extradata or b"")

        assert not any(pairs.is_second(packet) for packet in container.demux(video=0) if packet.size)


@pytest.mark.parametrize("container", ["ts", "mp4"])
def test_bytes_without_sense_are_no_second_field_and_no_exception(container: str) -> None:
    dice = random.Random(container)
    with av.open(io.BytesIO(in_fields(container=container)), "r") as opened:
        parameters = opened.streams.video[0].codec_context.extradata or b""
        packets = [bytes(packet)[:200] for packet in opened.demux(video=0) if packet.size]
    assert told(parameters, *packets) == [False, True] * 12

    for _ in range(500):
        spoilt = [bytearray(part[: dice.randrange(len(part) + 1)]) for part in (parameters, *packets)]
        for part in spoilt:
            for _ in range(min(3, len(part))):
                part[dice.randrange(len(part))] = dice.randrange(256)
        told(*map(bytes, spoilt))
