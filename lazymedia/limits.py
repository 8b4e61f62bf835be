"""Every limit of the library, with its unit and default, in one place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_type_hints

from lazymedia.public import publish

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What an operator allows. A request may choose freely below these numbers and is rejected above them.

    A limit of None would mean "no limit", and none accepts it: an operator who wants more writes a larger number.
    """

    max_image_pixels: int = 89_478_485
    """Width x height of a picture. The value at which Pillow starts to warn; a quarter of a gigabyte as RGB."""
    max_image_side: int = 16_384
    """Pixels along the longer side; a picture of 1 x 2^31 has few pixels and still breaks resizers."""
    max_processor_pixels: int = 89_478_485
    """Width x height of what a model's processor makes of a picture on its way, by resizing or padding it.
    A gigabyte as three channels of float32, which a picture of 1 x 800 becomes where the short side is made 336."""
    max_request_processor_pixels: int = 357_913_940
    """The same, summed over the items of one request that no cache holds: four pictures at their limit. Processors take
    10 to 25 ns of CPU for each such pixel, so this bounds how long one request keeps the others from processing."""
    max_image_aspect: float = 200.0
    """Longer side of a picture over its shorter side, at a model's processor. Qwen2-VL has the same bound; a processor
    that resizes the shorter side makes a picture hundreds of times larger beyond it."""
    max_prompt_characters: int = 524_288
    """Characters of a prompt, before items take the places of their placeholders: about 128 Ki tokens of English text.
    Tokenising takes about a microsecond for each."""
    max_option_size: int = 16_384
    """Characters of all names and texts among the processor options of one request, and likewise among its decoder
    options; any other value counts as 8. Requests use a few hundred."""
    max_option_length: int = 64
    """Entries of one list or mapping in a request's options. The longest that is of use names the channels' means."""
    max_option_number: float = 1e9
    """Largest magnitude of a number in a request's options. The largest of use are areas in pixels."""
    max_image_scans: int = 64
    """Scans of a progressive JPEG. Each costs a pass over all pixels; libjpeg-turbo's author names counting as the
    cure.
    """
    max_image_ns_per_pixel: int = 60
    """Nanoseconds of decoding, by an estimate from the header, that a JPEG may take for each pixel. An ordinary picture
    takes 5, a progressive one 20; a second for each 10 megapixels is 100. Without it, 910 bytes of arithmetic coding
    take 12 s."""
    max_image_ns_per_byte: int = 1_500
    """The same for each encoded byte, in addition. Two seconds for each megabyte are 2,000."""
    max_image_chunks: int = 4_096
    """Chunks of a PNG; a million empty ones cost seconds before the first pixel."""
    image_formats: tuple[str, ...] = ("JPEG", "PNG", "WEBP", "GIF", "AVIF", "HEIF", "BMP")
    """Formats that are decoded at all, by Pillow's names; HEIF (HEIC) where pillow-heif is installed. "TIFF" may be
    added; anything else is unknown."""

    max_download_bytes: int = 256 * MIB
    """Encoded bytes of one item from any source, for decoders that name no smaller cap."""
    max_image_bytes: int = 64 * MIB
    """Encoded bytes of one picture."""
    max_video_bytes: int = 256 * MIB
    """Encoded bytes of one video."""
    max_audio_bytes: int = 25 * MIB
    """Encoded bytes of one audio clip."""
    max_request_download_bytes: int = 512 * MIB
    """Encoded bytes of all items of one request together."""
    max_request_decoded_bytes: int = 2048 * MIB
    """Decoded bytes of all items of one request together."""

    max_request_processed_bytes: int = 2048 * MIB
    """Bytes of the tensors that the items of one request become and that no cache holds yet."""

    max_audio_seconds: float = 600.0
    """Seconds of decoded audio."""
    max_audio_decoded_bytes: int = 256 * MIB
    """Bytes of decoded samples, before and after resampling."""
    max_audio_channels: int = 8
    """Channels of an audio clip, checked before they are mixed."""
    min_audio_rate: int = 4_000
    """Hz; a lower declared rate would be blown up by resampling."""
    max_audio_rate: int = 384_000
    """Hz; a higher declared rate makes a long clip look short."""
    max_audio_amplitude: float = 2.0**32
    """Absolute value of a sample, where 1.0 is full scale. Floats that hold PCM of 32 bits as whole numbers come to
    2^31; the squares that a spectrogram sums may overflow far above."""

    max_video_frames: int = 768
    """Frames that one video may yield."""
    max_video_walk_frames: int = 36_000
    """Frames that may be decoded on the way to the wanted ones: twenty minutes at 30 per second."""
    max_video_walk_pixels: int = 1 << 29
    """Pixels, width x height, that may be decoded on the way to the wanted frames of any video. A group of 250 frames
    of 1920 x 1080, x264's default, which takes half a second. A pixel of VP8 and VP9 counts one and a half, of GIF four
    and of WebP eight, as much more as it costs."""
    max_video_walk_pixels_per_pixel: int = 100
    """Further ones for each pixel of the wanted frames. 32 frames of a recording of two minutes with one key frame:
    3,600 frames at 30 per second. A tenth of a CPU second for each megapixel wanted."""
    max_video_walk_pixels_per_byte: int = 2_000
    """Further ones for each encoded byte. Two CPU seconds for each megabyte; a frame of 1920 x 1080 in 1,040 bytes is
    250 kbit/s at 30 frames per second."""
    max_video_frame_pixels: int = 8_912_896
    """Width x height of a frame: 4096 x 2176."""
    max_video_seconds: float = 14_400.0
    """Seconds that a video may claim to last."""
    max_video_streams: int = 8
    """Streams that are looked at in one container."""

    max_metadata_entries: int = 512
    """Entries of one table of tags or chapters in a video or an audio clip; a name of more than 32 bytes counts again
    for each further 32. FFmpeg compares each name with those of all entries before it: 40,000 entries of eleven bytes
    take more than ten seconds, 512 some milliseconds each time that a file is opened. Tagging programs write some
    tens."""

    max_redirects: int = 5
    """Hops that one fetch follows; each is checked as the first URL was."""
    max_url_length: int = 8_192
    """Characters of a URL that is not a data URL."""
    max_items_per_request: int = 64
    """Items of all modalities in one request."""
    max_chat_parts: int = 4_096
    """Messages, content parts and tool calls of one chat request together. A template takes 0.1 ms for each, some
    times over."""
    max_connections: int = 256
    """Connections that one connector holds open."""
    max_connections_per_host: int = 64
    """Connections to one scheme, host and port. A quarter of all, so that one slow host leaves room for others."""
    max_waiting_fetches: int = 1_024
    """Downloads that wait for a connection; four for each of `max_connections`. Further ones are rejected."""
    max_lookups: int = 256
    """Threads of one connector that look up names, as many as connections. One whose lookup hangs is lost until the
    resolver gives up, and may outlive its fetch. Of the second half of them, each request gets one."""
    max_lookups_per_request: int = 4
    """Of these threads, those that one request may have. A lookup takes some milliseconds where it does not hang."""
    max_downloading_bytes: int = 2048 * MIB
    """Encoded bytes that all running downloads of one connector hold together; eight videos at their cap."""
    max_retries: int = 2
    """Further tries of one download whose failure is of the kind that passes by itself."""
    retry_backoff: float = 0.5
    """Seconds before the first further try at most; twice as many before the next. The wait is drawn between 0 and
    that, so that clients of a server that failed do not come back all at once."""
    max_retry_after: float = 5.0
    """Seconds that are waited where a server says how long. One that says more is given up at once."""
    min_download_rate: int = 1_024
    """Bytes a second that a body must come at. A modem of the 1990s sent three times as many. 0 means any rate."""
    download_grace: float = 10.0
    """Seconds that a body may come slower; the time over which its rate is taken."""
    connect_timeout: float = 10.0
    """Seconds for a name to resolve and a connection to stand."""
    image_timeout: float = 30.0
    """Seconds for the whole fetch of a picture, redirects and name lookups included."""
    video_timeout: float = 120.0
    """Seconds for the whole fetch of a video; also for one download that serves video and audio."""
    audio_timeout: float = 60.0
    """Seconds for the whole fetch of an audio clip."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, tuple):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"limit {field.name} must be a number, not {type(value).__name__}")
            if not 0 <= value < float("inf"):
                raise ValueError(f"limit {field.name} must be finite and not negative")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Limits:
        """Defaults, overridden by ``LAZYMEDIA_<FIELD>`` variables, for example ``LAZYMEDIA_MAX_IMAGE_PIXELS=50000000``.

        Tuples are separated by commas.

        Raises:
            ValueError: A variable is not a number of the field's type. The operator's fault.
        """
        environ = os.environ if environ is None else environ
        hints = get_type_hints(cls)
        found: dict[str, Any] = {}
        for field in fields(cls):
            name = f"LAZYMEDIA_{field.name.upper()}"
            if name in environ:
                found[field.name] = _parse(name, environ[name], hints[field.name])
        return cls(**found)

    def tighten(self, **smaller: float) -> Limits:
        """A copy with some limits lowered. What is above the limit in force stays at that limit.

        Raises:
            TypeError: No such limit, or one that is not a number.
        """
        changes: dict[str, Any] = {}
        for name, value in smaller.items():
            current = getattr(self, name, None)
            if isinstance(current, bool) or not isinstance(current, int | float):
                raise TypeError(f"no limit named {name!r} that could be tightened")
            # A lowest allowed value is tightened by raising it.
            changes[name] = max(current, value) if name.startswith("min_") else min(current, value)
        return replace(self, **changes)


def _parse(name: str, text: str, kind: object) -> object:
    try:
        if kind is int:
            return int(text)
        if kind is float:
            return float(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not a number of type {getattr(kind, '__name__', kind)}") from None
    return tuple(part.strip() for part in text.split(",") if part.strip())


DEFAULT_LIMITS = Limits()
"""The limits of everything that is given none."""

__all__ = ["DEFAULT_LIMITS", "MIB", "Limits"]

publish(__name__)
