"""Opus in OGG, decoded many frames at a time: the same samples as packet by packet, whatever the file is."""

from __future__ import annotations

import base64
import io
import os
import random
import struct
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final

import av
import numpy as np
import pytest

from lazymedia.limits import Limits
from lazymedia.media.audio import feed, ogg_opus, piped
from lazymedia.media.audio.outline import outline
from lazymedia.testing.audio import make_audio, sound
from tests.media.many_at_a_time import by_packets, checks, load, outcome
from tests.media.ogg_pages import CONTINUED, LAST, Sheet, changed, laid_out, packed, replace, sheets

pytestmark = pytest.mark.skipif(not piped.is_possible(), reason="needs pipes that tell how much they hold")

MUTANTS: Final = 5_000 if os.environ.get("LAZYMEDIA_LONG_TESTS") else 250


def by_ffmpeg(seconds: float = 3.0, channels: int = 2, *, page_ms: int = 1_000, **options: str) -> bytes:
    """FFmpeg's encoder with options of its own."""
    made = io.BytesIO()
    layout = "mono" if channels == 1 else "stereo"
    samples = sound(seconds, 48_000, channels)
    with av.open(made, "w", format="ogg", options={"page_duration": str(1_000 * page_ms)}) as container:
        stream = container.add_stream("libopus", rate=48_000, options=options)
        assert isinstance(stream, av.AudioStream)
        stream.layout = layout
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="flt", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = 48_000, 0, Fraction(1, 48_000)
        for packet in (*stream.encode(frame), *stream.encode(None)):
            container.mux(packet)
    return made.getvalue()


CLIP: Final = make_audio(18, 48_000, 2, format="OPUS")
"""27 calls, the last of which is short; pages of a second."""
SHORT: Final = make_audio(1.2, 16_000, 1, format="OPUS")


SILENCE: Final = b"\xf8\xff\xfe"
"""A packet of 960 samples."""
CLIP_OF_TONES: Final = packed(sheets(CLIP)[:-1])
"""Its last page is full, and trims nothing."""


def later(clip: bytes, samples: int) -> bytes:
    """As if cut out of a longer recording."""
    return changed(clip, lambda _, sheet: replace(sheet, granule=sheet.granule + samples if sheet.granule > 0 else 0))


def with_head(clip: bytes, place: int, layout: str, value: int) -> bytes:
    """Another number in the identification."""

    def change(number: int, sheet: Sheet) -> Sheet:
        body = bytearray(sheet.body)
        if number == 0:
            struct.pack_into(layout, body, place, value)
        return replace(sheet, body=bytes(body))

    return changed(clip, change)


def with_words(clip: bytes, words: bytes) -> bytes:
    """Other words, on as many pages as they take."""
    identification, tags, *sound_ = sheets(clip)
    table = b"\xff" * (len(words) // 255) + bytes([len(words) % 255])
    made: list[Sheet] = []
    for start in range(0, len(table), 255):
        rows = table[start : start + 255]
        place = sum(table[:start])
        flags = CONTINUED if start else 0
        granule = 0 if start + 255 >= len(table) else -1
        made.append(Sheet(flags, granule, tags.serial, 1 + len(made), rows, words[place : place + sum(rows)]))
    return packed([identification, *made, *(replace(sheet, number=sheet.number + len(made) - 1) for sheet in sound_)])


def picture(side: int, count: int = 1) -> bytes:
    """Words that hold GIFs so wide and high, of a few bytes each, whose size only they tell. RFC 7845, section 5.2, and
    RFC 9639, section 8.8.
    """
    gif = b"GIF89a" + struct.pack("<HH", side, side) + b"\x80\0\0\0\0\0\xff\xff\xff"
    gif += b"," + struct.pack("<HHHH", 0, 0, 1, 1) + b"\0\2\2\x44\1\0;"
    block = struct.pack(">II9sIIIIII", 3, 9, b"image/gif", 0, 0, 0, 0, 0, len(gif)) + gif
    word = b"METADATA_BLOCK_PICTURE=" + base64.b64encode(block)
    return b"OpusTags" + struct.pack("<II", 0, count) + count * (struct.pack("<I", len(word)) + word)


def on_page(page: int, **values: Any) -> bytes:
    return changed(CLIP, lambda number, sheet: replace(sheet, **values) if number == page else sheet)


def last_page(**values: Any) -> bytes:
    return on_page(len(sheets(CLIP)) - 1, **values)


USUAL: Final[dict[str, Callable[[], bytes]]] = {
    "mono": lambda: SHORT,
    "stereo": lambda: CLIP,
    "by FFmpeg": by_ffmpeg,
    "speech": partial(by_ffmpeg, channels=1, application="voip", b="12000"),
    "speech in long frames": partial(by_ffmpeg, channels=1, application="voip", b="10000", frame_duration="60"),
    "packets of several frames": partial(by_ffmpeg, frame_duration="120"),
    "short frames": partial(by_ffmpeg, application="lowdelay", frame_duration="2.5"),
    "short pages": partial(by_ffmpeg, page_ms=20),
    "long pages": partial(by_ffmpeg, seconds=30, channels=1, page_ms=20_000, b="16000"),
    "one page": partial(by_ffmpeg, seconds=0.3),
    "a page of nothing but a frame": partial(by_ffmpeg, seconds=0.005),
    "packets cut by pages": lambda: laid_out(CLIP, 7),
    "cut out of a longer recording": lambda: later(CLIP, 987_654_321),
    "words on several pages": lambda: with_words(CLIP, sheets(CLIP)[1].body + bytes(150_000)),
    "louder": lambda: with_head(CLIP, 16, "<h", 600),
    "an encoder that skips less": lambda: with_head(CLIP, 10, "<H", 100),
    "an encoder that skips more than a packet": lambda: with_head(CLIP, 10, "<H", 3_840),
    "no last page": lambda: CLIP_OF_TONES,
    "all but a sample of the last packet trimmed": lambda: trimmed(959),
    "a picture that nobody decodes": lambda: with_words(CLIP, picture(500)),
}


@pytest.mark.parametrize("what", USUAL)
def test_the_usual_is_decoded_many_frames_at_a_time_to_the_same_samples(what: str) -> None:
    clip = USUAL[what]()
    track = ogg_opus.find(clip)

    assert track is not None
    assert checks(clip) <= 6 + track.samples // 16_000
    got = load(clip)
    assert len(got) == track.samples
    assert np.abs(got).max() > 0.2  # and no silence
    assert np.array_equal(got, by_packets(load, clip))


def in_two_streams() -> bytes:
    """Every other page under another number."""
    return changed(CLIP, lambda number, sheet: replace(sheet, serial=sheet.serial + (number > 4)))


def without_page(number: int) -> bytes:
    return packed(sheet for sheet in sheets(CLIP) if sheet.number != number)


UNUSUAL: Final[dict[str, Callable[[], bytes]]] = {
    "a recording behind another": lambda: SHORT + make_audio(1, 48_000, 1, format="OPUS", seed=1),
    "two numbers": in_two_streams,
    "a page that is missing": lambda: without_page(5),
    "a page that comes twice": lambda: packed(s for sheet in sheets(CLIP) for s in [sheet] * (1 + (sheet.number == 5))),
    "other bytes between pages": lambda: b"".join(sheet.packed() + b"\0" for sheet in sheets(CLIP)),
    "other bytes behind the last": lambda: CLIP + b"end",
    "a page that begins anew": lambda: changed(CLIP, lambda n, sheet: replace(sheet, flags=2 if n == 6 else 0)),
    "a page behind the last": lambda: changed(CLIP, lambda n, sheet: replace(sheet, flags=LAST if n == 6 else 0)),
    "a page within a packet": lambda: changed(CLIP, lambda n, sheet: sheet if n != 9 else hiding(sheet)),
    "cut in a page": lambda: CLIP[:-1000],
    "5.1": lambda: make_audio(1, 48_000, 6, format="OPUS"),
    "another version": lambda: with_head(CLIP, 8, "B", 2),
    "a mapping of channels": lambda: with_head(CLIP, 18, "B", 1),
    "times below zero": lambda: changed(CLIP, lambda n, sheet: replace(sheet, granule=-2) if n == 7 else sheet),
    "less than is skipped": lambda: later(SHORT, -48_000),
    "no sound": lambda: packed(sheets(CLIP)[:2]),
    "an identification that never ends": lambda: packed(
        [replace(sheets(CLIP)[0], table=b"\xff", body=sheets(CLIP)[0].body.ljust(255, b"\0")), *sheets(CLIP)[1:]]
    ),
    "sound on the page of the words": lambda: on_page(
        1, table=sheets(CLIP)[1].table + b"\3", body=sheets(CLIP)[1].body + SILENCE
    ),
    "a packet that is empty": lambda: on_page(6, table=sheets(CLIP)[6].table + b"\0"),
    "an empty packet at the end": lambda: last_page(table=sheets(CLIP)[-1].table + b"\0"),
    "a page of an empty packet at the end": lambda: CLIP_OF_TONES + tail(CLIP_OF_TONES, b"\0", b""),
    "sound behind the last time": lambda: CLIP_OF_TONES + tail(CLIP_OF_TONES, b"\3" * 50, SILENCE * 50),
    "a last page that tells no time": lambda: CLIP_OF_TONES + tail(CLIP_OF_TONES, b"\3", SILENCE, granule=-1),
    "a packet of no frames": lambda: with_packet(3, b"\xff\x00"),
    "a page of nothing": lambda: CLIP_OF_TONES + tail(CLIP_OF_TONES, b"", b""),
    "a last page that trims more than a packet": lambda: last_page(granule=860_000),
    "a last page that trims all of a packet": lambda: trimmed(960),
    "nothing but skipped sound": lambda: packed(
        [*sheets(SHORT)[:2], Sheet(LAST, 100, sheets(SHORT)[0].serial, 2, b"\3", b"\xf8\xff\xfe")]
    ),
}


def tail(clip: bytes, table: bytes, body: bytes, **values: Any) -> bytes:
    """One page more, of the same time as the last one."""
    last = sheets(clip)[-1]
    return replace(last, flags=0, number=last.number + 1, table=table, body=body, **values).packed()


def trimmed(samples: int) -> bytes:
    """Less of the last packet is to be heard."""
    last = len(sheets(CLIP_OF_TONES)) - 1
    return changed(
        CLIP_OF_TONES,
        lambda n, sheet: replace(sheet, flags=LAST, granule=sheet.granule - samples) if n == last else sheet,
    )


def hiding(sheet: Sheet) -> Sheet:
    """A page that another one lies in."""
    inner = Sheet(0, 1, sheet.serial, 3, b"\3", b"\xf8\xff\xfe").packed()
    return replace(sheet, body=inner + sheet.body[len(inner) :])


@pytest.mark.parametrize("what", UNUSUAL)
def test_whatever_is_unusual_is_left_to_the_demuxer(what: str) -> None:
    clip = UNUSUAL[what]()

    assert ogg_opus.find(clip) is None
    assert outcome(clip) == by_packets(outcome, clip)


def with_packet(number: int, head: bytes) -> bytes:
    """A packet of the sound that begins with other bytes, on the seventh page."""

    def change(page: int, sheet: Sheet) -> Sheet:
        if page != 6:
            return sheet
        places = np.cumsum([0, *sheet.table]).tolist()
        starts = [0, *(places[row + 1] for row, size in enumerate(sheet.table) if size < 255)]
        start = starts[number]
        return replace(sheet, body=sheet.body[:start] + head + sheet.body[start + len(head) :])

    return changed(CLIP, change)


def unfinished() -> bytes:
    sheet = sheets(CLIP)[6]
    return on_page(6, table=sheet.table[:-1] + b"\xff", body=sheet.body + bytes(255 - sheet.table[-1]))


LIES: Final[dict[str, Callable[[], bytes]]] = {
    "the end is earlier, within a packet": lambda: last_page(granule=864_000 - 200),
    "the end is earlier, by many": lambda: last_page(granule=860_000),
    "the end is before the start": lambda: last_page(granule=1),
    "the end is later": lambda: last_page(granule=900_000),
    "the end is later, and not the last page": lambda: last_page(granule=900_000, flags=0),
    "the end is so late that it would be refused": lambda: last_page(granule=1 << 50),
    "the end is as late as can be": lambda: last_page(granule=(1 << 63) - 1),
    "cut out of the longest recording there can be": lambda: later(CLIP, (1 << 63) - 1 - 864_312),
    "a jump": lambda: changed(CLIP, lambda n, sheet: replace(sheet, granule=sheet.granule + 50_000 * (n > 8))),
    "a jump by one": lambda: changed(CLIP, lambda n, sheet: replace(sheet, granule=sheet.granule + (n > 8))),
    "a jump back": lambda: changed(CLIP, lambda n, sheet: replace(sheet, granule=sheet.granule - 5_000 * (n > 8))),
    "time stands still": lambda: changed(CLIP, lambda n, sheet: replace(sheet, granule=min(sheet.granule, 300_000))),
    "no time tells anything": lambda: on_page(7, granule=-1),
    "all that is skipped": lambda: with_head(CLIP, 10, "<H", 0xFFFF),
    "a packet of no known length": lambda: with_packet(3, b"\xff\xff"),
    "a packet of other frames": lambda: with_packet(3, b"\x00"),
    "the last packet of a page is another": lambda: with_packet(49, b"\xff\x00"),
    "a checksum that is wrong": lambda: CLIP.replace(sheets(CLIP)[6].body[500:520], bytes(20)),
    "a page that continues nothing": lambda: on_page(6, flags=CONTINUED),
    "a packet that is never continued": unfinished,
    "empty packets": lambda: on_page(6, table=sheets(CLIP)[6].table + bytes(9)),
}


@pytest.mark.parametrize("what", LIES)
def test_what_pages_and_packets_say_otherwise_comes_to_the_same(what: str) -> None:
    clip = LIES[what]()

    assert outcome(clip) == by_packets(outcome, clip)


def test_damage_comes_to_the_same() -> None:
    """With checksums right and wrong."""
    rng = random.Random(5)
    clips = [SHORT, by_ffmpeg(2, page_ms=100), by_ffmpeg(2, 1, application="voip", b="12000", page_ms=60)]
    alike = 0
    for number in range(MUTANTS):
        clip = bytearray(rng.choice(clips))
        for _ in range(rng.choice([1, 2, 8])):
            clip[rng.randrange(len(clip))] = rng.choice([0, 255, rng.randrange(256)])
        mutant = packed(sheets(bytes(clip))) if number % 3 else bytes(clip)
        assert outcome(mutant) == by_packets(outcome, mutant)
        alike += ogg_opus.find(mutant) is not None
    assert alike > MUTANTS // 3


def test_a_file_that_ends_early_comes_to_the_same() -> None:
    rng = random.Random(3)
    whole = sheets(CLIP)

    for end in (rng.randrange(len(CLIP)) for _ in range(10)):
        assert outcome(CLIP[:end]) == by_packets(outcome, CLIP[:end])
    for number in range(1, len(whole), 3):
        clip = packed(whole[:number])
        assert outcome(clip) == by_packets(outcome, clip)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is Linux's to tell")
def test_pictures_among_the_words_cost_nothing() -> None:
    """A GIF of 90 bytes would be decoded to a gigabyte."""
    clip = with_words(SHORT, picture(16_000))
    assert ogg_opus.find(clip) is not None
    with av.open(io.BytesIO(clip), "r") as container:
        assert len(container.streams.video) == 1

    load(SHORT)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    load(clip)
    assert resident("VmHWM") - before < 100_000


def resident(field: str) -> int:
    """KiB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])


@pytest.mark.parametrize("what", ["stereo", "cut out of a longer recording", "an encoder that skips less"])
def test_a_limit_of_just_its_length_lets_it_pass_by_either_way(what: str) -> None:
    clip = USUAL[what]()
    just = partial(load, max_audio_seconds=len(load(clip)) / 48_000)

    assert np.array_equal(just(clip), by_packets(just, clip))


def test_a_clip_that_claims_to_end_before_it_begins_has_no_length() -> None:
    clip = changed(CLIP, lambda n, sheet: replace(sheet, granule=5_000 if n > 2 else 100_000 * (n == 2)))
    told = outline(clip, Limits())

    assert told is not None
    assert told.samples is None


def test_countless_pages_are_not_read_to_their_end() -> None:
    head, tags, *_ = sheets(SHORT)
    empty = b"".join(Sheet(0, 960, head.serial, 2, b"\3", b"\xf8\xff\xfe").packed() for _ in range(1))
    pages = b"".join(empty[:18] + (2 + number).to_bytes(4, "little") + empty[22:] for number in range(1 << 16))

    assert ogg_opus.find(packed([head, tags]) + pages) is None


@pytest.mark.parametrize("size", [1 << 17, 1 << 18])
@pytest.mark.parametrize("what", USUAL)
def test_a_pipe_is_never_empty_while_ffmpeg_reads(what: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that found too little would take that for the end."""
    monkeypatch.setattr(feed, "_PIPE", (size, 1 << 20))
    track = ogg_opus.find(USUAL[what]())
    assert track is not None

    with piped.opened(track) as blocks:
        assert sum(block.shape[1] for block in blocks) == track.samples


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    for clip in (CLIP, *(make() for make in LIES.values())):
        outcome(clip)

    assert capfd.readouterr() == ("", "")
