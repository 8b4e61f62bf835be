"""The library is chosen by container and codec: what libsndfile does not read of a WAV or FLAC, FFmpeg reads; and the
sound of an OGG is found whatever else is in it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.spec import DecodeSpec
from lazymedia.testing.audio import encode, make_audio, sound
from tests.media.audio_clips import wav
from tests.media.hearing import decode, pitches, refusal
from tests.media.hostile_clips import flac_frames, in_ogg, speex
from tests.media.mp3_clips import id3v2
from tests.media.odd_clips import muxed
from tests.media.ogg_pages import FIRST, LAST, Sheet, packed, replace, sheet_of, sheets


def backend_of(clip: bytes) -> object:
    return AudioMediaIO().load_bytes_ref(clip).spec.settings["audio_backend"]


@pytest.mark.parametrize(
    ("bits", "backend"),
    [(8, "soundfile"), (12, "pyav"), (16, "soundfile"), (20, "pyav"), (24, "soundfile"), (32, "pyav")],
)
def test_a_flac_of_any_depth_is_read(bits: int, backend: str) -> None:
    top = 1 << bits - 1
    values = [(-1) ** at * (top - 1 - 37 * at % top) for at in range(1_920)]
    clip = flac_frames(values, bits)

    ref = AudioMediaIO().load_bytes_ref(clip)

    assert ref.spec == DecodeSpec({"audio_backend": backend})
    assert np.array_equal(ref.decode()[0], (np.array(values) / top).astype(np.float32))
    if backend == "pyav":
        assert "soundfile does not read" in refusal(clip, "soundfile")


def test_a_flac_behind_a_tag_is_left_to_ffmpeg_and_its_limits_hold() -> None:
    """Libsndfile measures the tag by its own rules, and what it then finds need not be a FLAC."""
    clip = id3v2(300) + make_audio(1, format="FLAC")

    assert backend_of(clip) == "pyav"
    assert np.array_equal(decode(clip), decode(make_audio(1, format="FLAC")))
    with pytest.raises(UnprocessableMediaError, match=r"last 0\.5 seconds"):
        AudioMediaIO(limits=Limits(max_audio_seconds=0.5)).load_bytes_ref(clip)


WAVS: dict[str, tuple[str, str, int]] = {
    "FLAC": ("flac", "pyav", 0),
    "AC-3": ("ac3", "pyav", 1_536),
    "MP2": ("mp2", "pyav", 1_152),
    "MP3": ("libmp3lame", "pyav", 2 * 1_152),
    "ADPCM of Microsoft": ("adpcm_ms", "soundfile", 2_048),
    "ADPCM of the IMA": ("adpcm_ima_wav", "soundfile", 2_048),
    "mu-law": ("pcm_mulaw", "soundfile", 0),
    "A-law": ("pcm_alaw", "soundfile", 0),
    "24 bits": ("pcm_s24le", "soundfile", 0),
    "doubles": ("pcm_f64le", "soundfile", 0),
}


@pytest.mark.parametrize("what", WAVS)
def test_a_wav_of_any_codec_is_read(what: str) -> None:
    codec, backend, slack = WAVS[what]
    clip = muxed((codec, sound(1, 48_000), 0), container="wav")

    assert backend_of(clip) == backend
    (samples, rate), info = AudioMediaIO().load_bytes_and_info(clip)
    assert rate == 48_000
    assert abs(len(samples) - 48_000) <= slack
    assert pitches(np.resize(samples, 48_000)) == [440]
    assert (info.lost_samples, info.errors) == (0, 0)


PCM = make_audio(0.5)
HEAD, FORMAT, DATA = PCM[:12], PCM[12:36], PCM[36:]


def chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(body) if size is None else size) + body


SAMPLER = bytes(28) + struct.pack("<II", 1, 0)
CHUNKS: dict[str, tuple[bytes, str]] = {
    "a short sampler chunk": (HEAD + FORMAT + chunk(b"smpl", bytes(10)) + DATA, "pyav"),
    "a sampler chunk of nothing": (HEAD + FORMAT + chunk(b"smpl", b"") + DATA, "pyav"),
    "a sampler chunk without its loop": (HEAD + FORMAT + chunk(b"smpl", SAMPLER) + DATA, "pyav"),
    "a whole sampler chunk": (HEAD + FORMAT + chunk(b"smpl", SAMPLER + bytes(24)) + DATA, "soundfile"),
    "a short sampler chunk behind": (HEAD + FORMAT + DATA + chunk(b"smpl", bytes(10)), "pyav"),
    "samples before their format": (HEAD + DATA + FORMAT, "pyav"),
    "other chunks": (HEAD + chunk(b"JUNK", bytes(28)) + FORMAT + chunk(b"LIST", b"INFO") + DATA, "soundfile"),
    "odd chunks": (HEAD + chunk(b"bext", bytes(5)) + b"\0" + FORMAT + DATA, "soundfile"),
    "a short list of cues": (HEAD + FORMAT + chunk(b"cue ", b"\xff\0\0\0") + DATA, "pyav"),
    "a whole list of cues": (HEAD + FORMAT + chunk(b"cue ", b"\1\0\0\0" + bytes(24)) + DATA, "soundfile"),
    "an empty list of cues": (HEAD + FORMAT + chunk(b"cue ", b"") + DATA, "pyav"),
    "a short broadcast extension": (HEAD + FORMAT + chunk(b"bext", bytes(10)) + DATA, "soundfile"),
    "a short peak chunk": (HEAD + FORMAT + chunk(b"PEAK", bytes(2)) + DATA, "soundfile"),
    "a short cart chunk": (HEAD + FORMAT + chunk(b"cart", bytes(2)) + DATA, "soundfile"),
    "a short fact chunk": (HEAD + FORMAT + chunk(b"fact", b"") + DATA, "soundfile"),
    "a short instrument chunk": (HEAD + FORMAT + chunk(b"inst", b"\0\0") + DATA, "soundfile"),
}


@pytest.mark.parametrize("what", CHUNKS)
def test_a_wav_is_read_whatever_chunks_are_in_it(what: str) -> None:
    """Where libsndfile rejects a chunk that is no sound, FFmpeg reads the rest."""
    clip, backend = CHUNKS[what]

    assert backend_of(clip) == backend
    assert np.array_equal(decode(clip), decode(PCM))


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_an_extensible_header_names_the_codec_further_on(bits: int) -> None:
    plain = wav(bytes(range(240)) * 4, bits=bits)
    guid = struct.pack("<H", 1) + bytes.fromhex("000000001000800000aa00389b71")
    body = plain[20:36] + struct.pack("<HHI", 22, bits, 4) + guid
    clip = plain[:12] + chunk(b"fmt ", struct.pack("<H", 0xFFFE) + body[2:]) + plain[36:]

    assert backend_of(clip) == "soundfile"
    assert np.array_equal(decode(clip), decode(plain))
    other = clip.replace(guid, struct.pack("<H", 0x31) + guid[2:])  # GSM
    assert backend_of(other) == "pyav"
    refusal(other)


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT", "ULAW", "ALAW"])
def test_an_aiff_of_a_codec_without_compression_is_libsndfiles(subtype: str) -> None:
    clip = make_audio(0.5, format="AIFF", subtype=subtype)

    assert backend_of(clip) == "soundfile"
    header = AudioMediaIO().load_bytes_ref(clip).probe()
    assert header is not None
    assert (header.rate, header.channels, header.samples) == (16_000, 1, 8_000)
    assert len(decode(clip)) == 8_000


@pytest.mark.parametrize("codec", [b"ima4", b"GSM ", b"DWVW", b"ABCD"])
def test_an_aiff_of_another_codec_is_not(codec: bytes) -> None:
    clip = make_audio(0.5, format="AIFF", subtype="ULAW").replace(b"ulaw", codec)

    assert backend_of(clip) == "pyav"


# Several streams in one OGG


def theora(serial: int) -> list[Sheet]:
    """A stream that no decoder here reads, in three headers and ten packets. Theora specification, section 6.1."""
    head = b"\x80theora\3\2\1" + struct.pack(">HH", 4, 3) + bytes(30)
    first = sheet_of([head], serial, 0, FIRST)
    others = sheet_of([b"\x81theora" + bytes(8), b"\x82theora" + bytes(100)], serial, 1)
    frames = [sheet_of([b"\x40" + bytes(300)], serial, 2 + at, granule=at + 1) for at in range(9)]
    return [first, others, *frames, sheet_of([b"\x40" + bytes(300)], serial, 11, LAST, 10)]


def skeleton(serial: int) -> list[Sheet]:
    """Ogg Skeleton 3.0, which names the other streams."""
    head = b"fishead\0" + struct.pack("<HHqqqq", 3, 0, 0, 1_000, 0, 1_000) + bytes(20)
    return [sheet_of([head], serial, 0, FIRST), sheet_of([b""], serial, 1, LAST)]


def together(*streams: list[Sheet]) -> bytes:
    """Streams that begin together, and then come page by page in turn. RFC 3533, section 4."""
    first = [stream[0] for stream in streams]
    rest = [sheet for at in range(1, max(map(len, streams))) for stream in streams for sheet in stream[at : at + 1]]
    return packed(first + rest)


SPOKEN: dict[str, Callable[[], bytes]] = {
    "Vorbis": partial(make_audio, 3, 48_000, 2, format="OGG"),
    "FLAC": partial(make_audio, 3, 48_000, 2, format="OGA"),
    "Opus": partial(make_audio, 3, 48_000, 2, format="OPUS"),
    "Speex": partial(speex, packets=200),
}


@pytest.mark.parametrize("where", ["before", "behind"])
@pytest.mark.parametrize("beside", [theora, skeleton])
@pytest.mark.parametrize("codec", SPOKEN)
def test_the_sound_of_an_ogg_is_found_beside_other_streams(
    codec: str, beside: Callable[[int], list[Sheet]], where: str
) -> None:
    alone = SPOKEN[codec]()
    streams = [sheets(alone), beside(99)]
    clip = together(*(streams if where == "behind" else reversed(streams)))

    ref = AudioMediaIO().load_bytes_ref(clip)

    header = ref.probe()
    assert header is not None
    samples, rate = ref.decode()
    assert header.rate == rate
    assert np.array_equal(samples, decode(alone))


@pytest.mark.parametrize("codec", SPOKEN)
def test_of_two_streams_of_sound_one_is_heard_whole(codec: str) -> None:
    one = sheets(SPOKEN[codec]())
    other = [replace(sheet, serial=4_711) for sheet in one]

    assert np.array_equal(decode(together(one, other)), decode(packed(one)))


def test_speex_is_read_at_its_own_rate() -> None:
    samples, rate = AudioMediaIO().load_bytes(speex(packets=200))

    assert (rate, len(samples)) == (8_000, 32_000)


def test_an_ogg_without_sound_says_so() -> None:
    assert "no audio track" in refusal(packed(theora(1)))
    refusal(in_ogg([b"unknown", b""], [b"\0"], 1))


def test_what_a_number_in_a_header_cannot_be_is_left_to_the_decode() -> None:
    clip = encode(sound(0.1), 16_000, format="AIFF")
    at = clip.index(b"COMM") + 16
    for exponent in (0, 0x3FFE, 0x7FFF, 0xFFFF):
        broken = clip[:at] + struct.pack(">H", exponent) + clip[at + 2 :]
        refusal(broken)
