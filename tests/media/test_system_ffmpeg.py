"""Which payloads FFmpeg may choose a demuxer for itself, and what happens where torchcodec is not there."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.media import MediaIO, system_ffmpeg
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.system_ffmpeg import is_certain
from lazymedia.media.video import VideoMediaIO
from lazymedia.testing.audio import make_audio
from lazymedia.testing.video import make_video

SDP = b"\nv=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 41234 RTP/AVP 96\n"

CERTAIN = {
    "mp4": (make_video(1), "mov"),
    "mov": (make_video(1, container="mov"), "mov"),
    "m4a": (make_audio(0.1, format="M4A"), "mov"),
    "mkv": (make_video(1, container="mkv"), "matroska"),
    "webm": (make_audio(0.1, 48_000, format="WEBM"), "matroska"),
    "wav": (make_audio(0.1), "wav"),
    "flac": (make_audio(0.1, format="FLAC"), "flac"),
    "vorbis": (make_audio(0.1, format="OGG"), "ogg"),
    "opus": (make_audio(0.1, 48_000, format="OPUS"), "ogg"),
}

MP4, MKV, WAV, FLAC, OGG = (CERTAIN[name][0] for name in ("mp4", "mkv", "wav", "flac", "vorbis"))

UNCERTAIN = {
    "MPEG-TS": (make_video(3, container="ts"), "mpegts"),
    "MPEG-TS and SDP": (make_video(3, container="ts")[: 4 * 188] + SDP, "mpegts"),
    "MP3": (make_audio(0.1, format="MP3"), "mp3"),
    "ADTS": (make_audio(0.1, format="AAC"), "aac"),
    "AVI": (make_video(1, container="avi"), "avi"),
    "nothing": (b"", "mov"),
    "MP4 as Matroska": (MP4, "matroska"),
    "a movie that says it is an MPEG stream": (MP4[:32] + b"....moovhdlr....mhlrMPEG" + SDP + MP4[32:], "mov"),
    "HEIF": (MP4[:8] + b"heix" + MP4[12:], "mov"),
    "JPEG 2000": (MP4[:8] + b"jp2 " + MP4[12:], "mov"),
    "a first box of no size": (b"\0\0\0\0" + MP4[4:], "mov"),
    "a first box of a size it cannot have": (b"\0\0\0\7" + MP4[4:], "mov"),
    "a first box that scores half": (MP4[:4] + b"skip" + SDP, "mov"),
    "EBML of no known type": (MKV.replace(b"matroska", b"matruska", 1), "matroska"),
    "EBML whose header ends nowhere": (MKV[:4] + b"\x1f\xff\xff\xff" + MKV[8:], "matroska"),
    "EBML whose header is long": (MKV[:4] + b"\x4f\xff" + MKV[6:], "matroska"),
    "EBML with no size": (MKV[:4] + b"\0" + MKV[5:], "matroska"),
    "EBML and nothing": (MKV[:4], "matroska"),
    "a WAV that begins with text": (WAV[:12] + b"LIST" + SDP, "wav"),
    "a WAV without a zero in its head": (WAV[:16] + b"AAAA" + WAV[20:], "wav"),
    "RF64": (b"RF64" + WAV[4:], "wav"),
    "a FLAC of no blocks": (FLAC[:8] + b"\0\0\0\0" + FLAC[12:], "flac"),
    "a FLAC whose first block is another": (FLAC[:4] + b"\x04\0\0\x22" + FLAC[8:], "flac"),
    "a FLAC behind a tag": (b"ID3\4\0\0\0\0\0\0" + FLAC, "flac"),
    "an OGG of another version": (OGG[:4] + b"\1" + OGG[5:], "ogg"),
    "an OGG of six letters": (b"OggS" + SDP, "ogg"),
    "an OGG cut": (OGG[:5], "ogg"),
}


@pytest.mark.parametrize("name", CERTAIN)
def test_common_files_leave_ffmpeg_no_choice(name: str) -> None:
    assert is_certain(*CERTAIN[name])


@pytest.mark.parametrize("name", UNCERTAIN)
def test_whatever_ffmpeg_could_take_for_another_thing_is_uncertain(name: str) -> None:
    assert not is_certain(*UNCERTAIN[name])


def test_what_is_uncertain_is_pyavs_and_needs_no_torchcodec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchcodec", standing_in(None))
    video = VideoMediaIO(video_backend="torchcodec").load_bytes_ref(UNCERTAIN["MPEG-TS"][0])
    audio = AudioMediaIO(audio_backend="torchcodec").load_bytes_ref(UNCERTAIN["MP3"][0])

    assert video.spec.settings["video_backend"] == video.decode()[1].video_backend == "pyav"
    assert audio.spec.settings == {"audio_backend": "pyav"}
    assert len(audio.decode()[0])


def standing_in(ffmpeg: int | None) -> ModuleType:
    """A torchcodec that is installed, with this release of FFmpeg, and has none of what 0.17 brought."""
    module, decoders = ModuleType("torchcodec"), ModuleType("torchcodec.decoders")
    module.__spec__ = ModuleSpec("torchcodec", None)
    vars(module).update(decoders=decoders, ffmpeg_major_version=ffmpeg, __version__="0.16.0", __path__=[])
    return module


@pytest.mark.parametrize(("ffmpeg", "words"), [(None, "finds no FFmpeg"), (7, r"0\.16\.0 is too old")])
def test_a_torchcodec_that_cannot_be_used_is_an_import_error_before_any_key(
    ffmpeg: int | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torchcodec", standing_in(ffmpeg))
    monkeypatch.delitem(sys.modules, "torchcodec.decoders", raising=False)
    decoders: tuple[tuple[MediaIO[Any], bytes], ...] = (
        (VideoMediaIO(video_backend="torchcodec"), MP4),
        (AudioMediaIO(audio_backend="torchcodec"), FLAC),
    )

    for decoder, data in decoders:
        with pytest.raises(ImportError, match=rf"{words}.*the extra 'torchcodec' of lazymedia"):
            decoder.load_bytes_ref(data)
        with pytest.raises(ImportError, match=words):
            decoder.load_bytes(data)


def test_without_torchcodec_asking_for_it_is_an_import_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchcodec", None)

    with pytest.raises(ImportError, match="the extra 'torchcodec' of lazymedia"):
        VideoMediaIO(video_backend="torchcodec")
    with pytest.raises(ImportError, match="the extra 'torchcodec' of lazymedia"):
        AudioMediaIO(audio_backend="torchcodec")
    with pytest.raises(ImportError, match="the extra 'torchcodec' of lazymedia"):
        system_ffmpeg.load()


@pytest.mark.parametrize(("kind", "argument"), [(VideoMediaIO, "video_backend"), (AudioMediaIO, "audio_backend")])
def test_a_request_cannot_bring_in_torchcodec(kind: type[MediaIO[Any]], argument: str) -> None:
    wish = {argument: "torchcodec"}

    for default in (None, {}, {argument: "pyav"}):
        with pytest.raises(UnprocessableMediaError, match=argument):
            kind.merge_kwargs(default, wish)
    assert kind.merge_kwargs(wish, wish) == kind.merge_kwargs(wish, None) == wish
    assert kind.merge_kwargs(wish, {argument: "pyav"}) == {argument: "pyav"}


def test_naming_torchcodec_loads_no_torch() -> None:
    code = """
import sys
from lazymedia import AudioMediaIO, VideoMediaIO
try:
    VideoMediaIO(video_backend="torchcodec").load_bytes_ref(b"GIF89a"), AudioMediaIO(audio_backend="torchcodec")
except ImportError:
    pass
assert not {"torch", "torchcodec"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
