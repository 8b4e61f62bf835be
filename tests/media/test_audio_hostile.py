"""Clips that would end the process, or cost more than what they are worth. Each is read in a process of its own."""

from __future__ import annotations

import io
import json
import struct
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pytest
import soundfile

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.audio import AudioMediaIO, resample
from lazymedia.media.audio.formats import sniff
from lazymedia.testing.audio import make_audio
from tests.cpu import slowness
from tests.media.audio_clips import flac, wav
from tests.media.hearing import refusal
from tests.media.hostile_clips import (
    element,
    flac_frames,
    in_matroska,
    opus,
    opus_head,
    speex,
    speex_head,
    vorbis_bomb,
    vorbis_in_matroska,
)
from tests.media.mp3_clips import frames, id3v2, song, untold
from tests.media.ogg_pages import changed, replace
from tests.programs import Programs

LOADED: Final = """
from pathlib import Path
from lazymedia.media.audio import AudioMediaIO

for path in Path({folder!r}).iterdir():
    AudioMediaIO().load_bytes(path.read_bytes())
"""
"""Decodes a file of each library, which is loaded when it is first used."""

READ: Final = """
import json, resource, sys
from lazymedia.errors import UnprocessableMediaError
from lazymedia.media.audio import AudioMediaIO

def read(data):
    try:
        ref = AudioMediaIO().load_bytes_ref(data)
        if "header" in sys.argv:
            return str(ref.probe())
        samples, rate = ref.decode()
        return len(samples) / rate, float(max(samples.max(), -samples.min()))
    except UnprocessableMediaError as error:
        return str(error)

data = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF)
came = read(data)
after = resource.getrusage(resource.RUSAGE_SELF)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps([came, cpu, (after.ru_maxrss - before.ru_maxrss) / 1024]))
"""

Read = Callable[..., tuple[Any, float, float]]


@pytest.fixture(scope="module")
def read_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Read]:
    """``read_apart(clip, *header)``: what the decode of a clip comes to, or its header alone, in a process of its own;
    the CPU seconds; and the MiB by which memory grew. Fails where the process ends, or prints anything else.
    """
    folder = tmp_path_factory.mktemp("clips")
    for format_ in ("WAV", "OGG", "OPUS", "MKV", "M4A"):
        (folder / format_).write_bytes(make_audio(2, 48_000, format=format_))
    with Programs(LOADED.format(folder=str(folder))) as programs:

        def read(clip: bytes, *header: str) -> tuple[Any, float, float]:
            done = programs.run("-c", READ, *header, stdin=clip)
            assert done.returncode == 0, done.stderr[-500:]
            assert done.stderr == ""
            came, cpu, grown = json.loads(done.stdout)
            return came, cpu, grown

        yield read


BOMBS: dict[str, Callable[[], bytes]] = {
    "one book of 2^22 entries": partial(vorbis_bomb, 22),
    "one book of 2^20 entries": partial(vorbis_bomb, 20),
    "one book of 2^23 entries": partial(vorbis_bomb, 23),
    "128 books of 2^18 entries": partial(vorbis_bomb, 18, 128),
    "256 books of 2^17 entries": partial(vorbis_bomb, 17, 256),
    "in a WebM": partial(vorbis_in_matroska, 22, 1, b"webm"),
    "many books in a Matroska": partial(vorbis_in_matroska, 18, 128, b"matroska"),
    "behind a tag": lambda: id3v2(20) + vorbis_bomb(22),
    "as a FLAC behind a tag that libsndfile reads otherwise": lambda: b"ID3\4\0\0\0\0\0\x04fLaC" + vorbis_bomb(22),
    "a hundred in a row": lambda: vorbis_bomb(22) * 100,
    "Opus of 255 channels": lambda: opus(
        opus_head(255, family=255, mapping=b"\xff\0" + bytes(range(255))), [b"\xf8"], 960
    ),
    "Opus of no channel": lambda: opus(opus_head(0), [b"\xf8"], 960),
    "Opus that skips all": lambda: opus(opus_head(skip=65_535), [b"\xf8\xff\xfe"], 960),
    "Speex of 2^31 frames in a packet": lambda: speex(speex_head(frames=2**31 - 1)),
    "Speex of -1 frames in a packet": lambda: speex(speex_head(frames=2**32 - 1)),
    "Speex of 2^31 samples in a frame": lambda: speex(speex_head(size=2**31 - 1)),
    "Speex of 1 Hz": lambda: speex(speex_head(rate=1)),
    "Speex of 255 channels": lambda: speex(speex_head(channels=255)),
    "Speex of another mode": lambda: speex(speex_head(mode=2**31 - 1)),
}
"""None of them has sound."""


@pytest.mark.parametrize("header", [(), ("header",)], ids=["decode", "header"])
@pytest.mark.parametrize("what", BOMBS)
def test_a_header_that_asks_for_too_much_is_an_error_at_once(
    what: str, header: tuple[str, ...], read_apart: Read
) -> None:
    came, cpu, grown = read_apart(BOMBS[what](), *header)

    assert isinstance(came, str)
    assert cpu < 0.25 * slowness()  # the cost of 255 Opus decoders is 0.07
    assert grown < 60


def many_packets(count: int) -> bytes:
    """PCM in packets of one sample."""
    return in_matroska(b"A_PCM/INT/LIT", b"", [b"\0\1"] * count, kind=b"matroska")


def empty_packets(count: int) -> bytes:
    return in_matroska(b"A_OPUS", b"OpusHead" + opus_head(), [b""] * count)


def laced_packets(blocks: int) -> bytes:
    """Of one size each. RFC 9559, section 10.3.4."""
    block = element("A3", b"\x81\0\0\x84\xff", b"\xff" * 256)
    plain = in_matroska(b"A_AAC", bytes.fromhex("1190"), [], rate=48_000, channels=2)
    head = plain[: plain.index(bytes.fromhex("1F43B675"))]
    start = head.index(bytes.fromhex("18538067")) + 4
    return (
        head[:start]
        + b"\x01"
        + b"\xff" * 7
        + head[start + 8 :]
        + element("1F43B675", element("E7", b"\0"), block * blocks)
    )


def broken_packets(count: int) -> bytes:
    return in_matroska(b"A_AAC", bytes.fromhex("1190"), [b"\xff"] * count, rate=48_000, channels=2)


def silence(bits: int) -> bytes:
    """Nine minutes in frames of a few bytes."""
    buffer = io.BytesIO()
    with soundfile.SoundFile(buffer, "w", 48_000, 2, format="FLAC", subtype=f"PCM_{bits}") as file:
        for _ in range(9):
            file.write(np.zeros((60 * 48_000, 2), np.float32))
    return buffer.getvalue()


LIKE_A_FRAME = {
    "sync": b"\xff",
    "header": b"\xff\xfb\x90\x64",
    "half a header": b"\xff\xfb",
    "nothing": b"\0",
    "no rate": b"\xff\xfb\xe0\x64" + bytes(20),
    "tags": id3v2(0),
    "headers of two kinds": b"\xff\xfb\x10\x64\xff\xf3\x10\x64",
    "headers of AAC": b"\xff\xf1\x4c\x80\x00\xe0\xfc",
    "packets of a transport stream": b"G\x01\x00\x10" + bytes(184),
    "pages": b"OggS\0\2" + bytes(20) + b"\1\0",
    "clusters": element("1F43B675", b""),
}

DEAR: dict[str, Callable[[], bytes]] = {
    **{
        f"three frames and then {name}": partial(lambda filler: few() + filler * (3_000_000 // len(filler)), filler)
        for name, filler in LIKE_A_FRAME.items()
    },
    **{
        f"now and then frames in {name}": partial(
            lambda filler: (few() + filler * (5_000 // len(filler))) * (3_000_000 // 7_000), filler
        )
        for name, filler in LIKE_A_FRAME.items()
    },
    "only headers of AAC": lambda: LIKE_A_FRAME["headers of AAC"] * 400_000,
    "only packets of a transport stream": lambda: LIKE_A_FRAME["packets of a transport stream"] * 15_000,
    "only pages": lambda: LIKE_A_FRAME["pages"] * 250,
    "sound and then pages": lambda: make_audio(1, 48_000, format="OGG") + LIKE_A_FRAME["pages"] * 100,
    "packets of one sample": partial(many_packets, 30_000),
    "packets of nothing": partial(empty_packets, 100_000),
    "packets of a byte, 255 in a block": partial(laced_packets, 2_000),
    "packets that do not decode": partial(broken_packets, 100_000),
    "Opus of silence": lambda: opus(opus_head(), [b"\xe3\x30"] * 250, 250 * 5_760),
    "FLAC of silence": partial(silence, 16),
    "256 recordings": lambda: make_audio(0.001, 8_000, format="OGG") * 256,
    "a WAV of empty chunks": lambda: wav()[:12] + b"junk\0\0\0\0" * 300_000,
    "an ADPCM of large blocks": lambda: wav(b"\0" * 3_000_000, tag=0x11, bits=4, block_align=65_535, channels=2),
    "a FLAC of 2^36 samples in the limits of none": lambda: flac(total=0) + bytes(2_000_000),
}


def few() -> bytes:
    return b"".join(frames(untold(song(seconds=0.2)))[:3])


@pytest.mark.parametrize("what", DEAR)
def test_no_input_costs_more_than_its_size_and_its_length_allow(what: str, read_apart: Read) -> None:
    """Two CPU seconds for each megabyte, one for each minute that came; and what one clip always costs."""
    clip = DEAR[what]()

    came, cpu, grown = read_apart(clip)

    minutes = 0 if isinstance(came, str) else came[0] / 60
    assert cpu < (2 * len(clip) / 1e6 + minutes + 0.15) * slowness()
    assert grown < 40 + 2 * len(clip) / 2**20 + minutes * 60 * 48_000 * 4 / 2**20


# What is no audio


def two_frames(header: str = "fffb9064", size: int = 417) -> bytes:
    return (bytes.fromhex(header) + bytes(size - 4)) * 2


SIGNATURES: dict[str, bytes] = {
    "GIF": b"GIF89a",
    "PNG": b"\x89PNG\r\n\x1a\n",
    "JPEG": b"\xff\xd8\xff\xe0",
    "BMP": b"BM",
    "TIFF": b"II*\0",
    "WebP": b"RIFF\0\0\1\0WEBP",
    "ELF": b"\x7fELF\2\1\1\0",
    "Windows": b"MZ\x90\0",
    "Mach-O": b"\xcf\xfa\xed\xfe",
    "Java": b"\xca\xfe\xba\xbe",
    "ZIP": b"PK\3\4",
    "gzip": b"\x1f\x8b\x08",
    "PDF": b"%PDF-1.7",
    "HTML": b"<!DOCTYPE html>",
    "script": b"#!/bin/sh\n",
    "SQLite": b"SQLite format 3\0",
    "ASF": bytes.fromhex("3026b2758e66cf11"),
    "CAF": b"caff\0\1",
    "AU": b".snd",
    "MIDI": b"MThd",
    "7z": b"7z\xbc\xaf\x27\x1c",
}


@pytest.mark.parametrize("count", [2, 40])
@pytest.mark.parametrize("what", SIGNATURES)
def test_a_file_of_another_format_is_no_mp3_whatever_frames_are_in_it(what: str, count: int) -> None:
    clip = SIGNATURES[what] + bytes(60) + two_frames() * (count // 2) + b"x" * 3_000

    for data in (clip, SIGNATURES[what] + song(), SIGNATURES[what] + bytes(60) + make_audio(1, format="AAC")):
        assert "not a supported audio format" in refusal(data)
        assert "not a supported audio format" in refusal(data, "pyav")


ADTS_FRAME = bytes.fromhex("fff14c80013ffc") + bytes(2)
"""A frame of nine bytes."""


@pytest.mark.parametrize("before", [b"", bytes(60), b"any text " * 20, bytes(range(255)) * 3])
@pytest.mark.parametrize("frame", [two_frames()[:417], two_frames("ffe318c4", 72)[:72], ADTS_FRAME])
def test_two_frames_alone_are_no_audio_and_three_are(before: bytes, frame: bytes) -> None:
    for behind in (b"", b"x" * 3_000):
        assert sniff(before + frame * 2 + behind) is None
        assert sniff(before + frame * 3 + behind) is not None


def test_this_programs_own_file_is_no_audio() -> None:
    with open(sys.executable, "rb") as file:  # noqa: PTH123  # no path of a test's own
        data = file.read(20_000_000)

    assert "not a supported audio format" in refusal(data)


# Samples out of range


@pytest.mark.parametrize("value", [3e38, -3e38, 2.0**33, float("nan"), float("inf")])
@pytest.mark.parametrize("channels", [1, 2, 8])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("backend", ["auto", "pyav"])
def test_samples_beyond_any_recording_are_rejected(value: float, channels: int, bits: int, backend: str) -> None:
    """Also where they are finite and their sum or the resampled ones are not."""
    for size in (2_000, 200_000):
        pcm = np.full((size // channels, channels), value, f"<f{bits // 8}").tobytes()
        clip = wav(pcm, bits=bits, tag=3, channels=channels)

        assert "samples" in refusal(clip, backend)
        with pytest.raises(UnprocessableMediaError):
            AudioMediaIO().load_bytes_resampled(clip, resample(8_000))


def test_doubles_that_no_float_holds_are_rejected() -> None:
    clip = wav(np.full(2_000, 1e300, "<f8").tobytes(), bits=64, tag=3)

    for backend in ("auto", "pyav"):
        assert "finite" in refusal(clip, backend)


@pytest.mark.parametrize("scale", [2.0**15, 2.0**31])
def test_floats_that_hold_pcm_as_whole_numbers_are_taken_as_they_are(scale: float) -> None:
    pcm = (np.linspace(-1, 1, 2_000) * scale).astype("<f4")

    assert np.array_equal(AudioMediaIO().load_bytes(wav(pcm.tobytes(), bits=32, tag=3))[0], pcm)


def test_an_opus_made_louder_than_any_recording_is_rejected_or_finite(read_apart: Read) -> None:
    """Its header may ask for 128 dB. RFC 7845, section 5.1."""
    clip = changed(
        make_audio(1, 48_000, format="OPUS"),
        lambda at, sheet: (
            replace(sheet, body=sheet.body[:16] + struct.pack("<h", 32_767) + sheet.body[18:]) if at == 0 else sheet
        ),
    )
    came, _, _ = read_apart(clip)

    assert isinstance(came, str) or came[1] <= 2.0**32


def test_a_flac_made_by_hand_is_one() -> None:
    """The generator of odd depths, by the depth that every library reads."""
    values = [(7 * at) % 2_000 - 1_000 for at in range(1_920)]

    assert np.array_equal(AudioMediaIO().load_bytes(flac_frames(values, 16))[0] * 32_768, values)
