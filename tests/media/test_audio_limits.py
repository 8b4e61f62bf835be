"""What a header claims, what a clip comes to, and that neither costs anything above the limits."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable
from functools import cache

import av.logging
import numpy as np
import pytest
import soundfile

from lazymedia.errors import PayloadTooLargeError, UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.audio import AudioMediaIO, resample
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.testing.audio import encode, make_audio
from lazymedia.testing.video import make_video
from tests.media.audio_clips import flac, wav
from tests.media.stops import After

MIB = 1 << 20


def refusal(clip: bytes, backend: str = "auto", limits: Limits | None = None) -> UnprocessableMediaError:
    reader = AudioMediaIO(audio_backend=backend, limits=limits)  # type: ignore[arg-type]  # from a table
    with pytest.raises(UnprocessableMediaError) as caught:
        reader.load_bytes(clip)
    assert caught.value.modality == "audio"
    return caught.value


LIES: dict[str, bytes] = {
    "WAV of 1 Hz": wav(rate=1),
    "WAV of 3999 Hz": wav(rate=3_999),
    "WAV of 655350 Hz": wav(rate=655_350),
    "WAV of 2^32 - 1 Hz": wav(rate=2**32 - 1),
    "WAV of 9 channels": wav(channels=9),
    "WAV of 1024 channels": wav(b"\0" * 4096, channels=1024),
    "FLAC of 655350 Hz and 8 channels": flac(rate=655_350, channels=8),
    "FLAC of 2^36 - 1 samples": flac(total=2**36 - 1),
    "FLAC of 5e8 samples": flac(total=500_000_000),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_declares_too_much_is_rejected_when_the_reference_is_made(lie: str) -> None:
    with pytest.raises(UnprocessableMediaError) as caught:
        AudioMediaIO().load_bytes_ref(LIES[lie])

    assert caught.value.__cause__ is None
    assert caught.value.modality == "audio"


@pytest.mark.parametrize("backend", ["soundfile", "pyav"])
@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_declares_too_much_costs_no_memory_when_it_is_decoded(lie: str, backend: str) -> None:
    refusal(make_audio(0.1, format="FLAC")[:60], backend)  # the libraries are loaded now
    tracemalloc.start()
    try:
        refusal(LIES[lie], backend)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 4 * MIB


@pytest.mark.parametrize("backend", ["soundfile", "pyav"])
def test_a_flac_that_holds_less_than_it_promises_gives_what_it_holds_and_says_so(backend: str) -> None:
    reader = AudioMediaIO(audio_backend=backend)  # type: ignore[arg-type]  # from a table
    (samples, _), info = reader.load_bytes_and_info(flac(total=8_000_000))

    assert (len(samples), info.samples) == (16_000, 16_000)
    assert info.lost_samples == 8_000_000 - 16_000


@pytest.mark.parametrize("backend", ["soundfile", "pyav"])
def test_a_flac_of_unknown_length_is_read_to_its_end(backend: str) -> None:
    samples, _ = AudioMediaIO(audio_backend=backend).load_bytes(flac(total=0))  # type: ignore[arg-type]  # from a table

    assert len(samples) == 16_000


@pytest.mark.parametrize("format_", ["WAV", "FLAC", "OGG", "OPUS", "MP3", "AIFF", "M4A", "WEBM", "AAC", "TS", "MOV"])
@pytest.mark.parametrize("backend", ["auto", "pyav"])
def test_a_clip_longer_than_allowed_is_rejected_in_every_format(format_: str, backend: str) -> None:
    clip = make_audio(3, 48_000, format=format_)

    assert "2 seconds" in str(refusal(clip, backend, Limits(max_audio_seconds=2)))
    assert AudioMediaIO(limits=Limits(max_audio_seconds=3.2)).load_bytes(clip)[1] == 48_000


def test_a_clip_of_exactly_the_limit_passes() -> None:
    assert len(AudioMediaIO(limits=Limits(max_audio_seconds=1)).load_bytes(make_audio(1))[0]) == 16_000


@pytest.mark.parametrize("format_", ["WAV", "MP3", "M4A", "WEBM"])
def test_the_limit_on_decoded_bytes_counts_all_channels(format_: str) -> None:
    clip = make_audio(2, 48_000, 2, format=format_)

    assert "bytes" in str(refusal(clip, limits=Limits(max_audio_decoded_bytes=2 * 48_000 * 4)))


def test_the_silence_bomb_stops_at_the_limit() -> None:
    """Nine minutes of silence in a few kilobytes, a limit of one."""
    buffer = io.BytesIO()
    with soundfile.SoundFile(buffer, "w", 48_000, 1, format="FLAC", subtype="PCM_16") as file:
        for _ in range(9):
            file.write(np.zeros(60 * 48_000, np.float32))
    silence = buffer.getvalue()
    unknown = flac(total=0, data=silence)
    assert len(silence) < MIB

    for clip in (silence, unknown):
        for backend in ("soundfile", "pyav"):
            assert "60 seconds" in str(refusal(clip, backend, Limits(max_audio_seconds=60)))


def test_too_many_encoded_bytes_are_rejected_before_anything_else() -> None:
    reader = AudioMediaIO(limits=Limits(max_audio_bytes=100))

    assert reader.get_max_bytes() == 100
    with pytest.raises(PayloadTooLargeError):
        reader.load_bytes_ref(wav())


def test_a_header_that_is_known_tells_what_the_samples_will_take() -> None:
    reader = AudioMediaIO()

    assert reader.load_bytes_ref(make_audio(1)).decoded_bytes == 64_000
    assert reader.load_bytes_ref(make_audio(1, format="FLAC")).decoded_bytes == 64_000
    assert reader.load_bytes_ref(wav(b"\0\0" * 100, data_size=2**32 - 1)).decoded_bytes == 400
    assert reader.load_bytes_ref(make_audio(1, format="MP3")).decoded_bytes is None


@pytest.mark.parametrize("format_", ["WAV", "FLAC", "OGG", "MP3", "M4A", "WEBM"])
def test_a_decode_stops_between_two_blocks_when_it_is_no_longer_wanted(format_: str) -> None:
    clip = make_audio(20, 48_000, 2, format=format_)
    check = After(3)

    with stopping_when(check), pytest.raises(DecodeStopped):
        AudioMediaIO().load_bytes(clip)
    assert check.calls == 4


@cache
def minute(format_: str) -> bytes:
    return make_audio(60, 44_100, 2, format=format_)


def decode(reader: AudioMediaIO, clip: bytes) -> int:
    return reader.load_bytes(clip)[0].nbytes


def decode_resampled(reader: AudioMediaIO, clip: bytes) -> int:
    return reader.load_bytes_resampled(clip, resample(16_000))[0].nbytes


def decode_mapped(reader: AudioMediaIO, clip: bytes) -> int:
    to_16k = resample(16_000)
    return reader.load_bytes_ref(clip).map(to_16k, **to_16k.settings()).decode()[0].nbytes


@pytest.mark.parametrize("how", [decode, decode_resampled, decode_mapped])
@pytest.mark.parametrize("format_", ["WAV", "FLAC", "MP3", "M4A"])
def test_memory_peaks_at_the_result_and_a_few_mebibytes(
    format_: str, how: Callable[[AudioMediaIO, bytes], int]
) -> None:
    """Resident memory, as the kernel counts it: room that is never written to is no memory."""
    clip = minute(format_)
    reader = AudioMediaIO()
    how(reader, make_audio(2, 44_100, 2, format=format_))
    try:
        with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123  # no path, a switch
            file.write("5")
    except OSError:
        pytest.skip("the kernel does not let the high-water mark be reset")
    before = high_water()

    size = how(reader, clip)

    assert high_water() - before < size + 8 * MIB


def high_water() -> int:
    with open("/proc/self/status") as file:  # noqa: PTH123  # no path, a counter
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def test_the_samples_share_no_memory_with_a_later_decode() -> None:
    reader = AudioMediaIO()
    one, _ = reader.load_bytes(encode(np.full((100_000, 1), 0.5, np.float32), 16_000))
    kept = one.copy()

    reader.load_bytes(make_audio(8))

    assert np.array_equal(one, kept)


@pytest.mark.parametrize(
    ("codec", "container", "pixels"),
    [("ffv1", "mkv", "yuv420p"), ("png", "mov", "rgb24"), ("qtrle", "mov", "rgb24")],
)
def test_the_track_beside_the_sound_is_not_run_by_a_decoder_that_is_not_allowed(
    codec: str, container: str, pixels: str
) -> None:
    """Opening a container tries decoders on every track, to learn their parameters."""
    data = make_video(10, codec=codec, container=container, pixel_format=pixels, audio=True)
    level = av.logging.get_level()
    av.logging.set_level(av.logging.ERROR)
    try:
        with av.logging.Capture() as logs:
            samples, _ = AudioMediaIO().load_bytes(data)
    finally:
        av.logging.set_level(level)

    assert len(samples)
    assert any("not on whitelist" in message for _, _, message in logs)
