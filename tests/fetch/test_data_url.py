"""Payloads inside the URL."""

from __future__ import annotations

import base64
import hashlib
import random
import sys
import textwrap
import threading
import time
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

from lazymedia.errors import BadUrlError, LazyMediaError, PayloadTooLargeError, UnprocessableMediaError
from lazymedia.fetch import MediaConnector
from lazymedia.fetch.policy.url import DataUrl
from lazymedia.fetch.sources.data_url import DataPayload
from lazymedia.limits import Limits
from lazymedia.media import MediaIO, MediaRef
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.media.video import VideoMediaIO
from tests.cpu import slowness

PNG = bytes.fromhex("89504e470d0a1a0a") + bytes(range(256))
BASE64 = base64.b64encode(PNG).decode()
ESCAPED = "".join(f"%{byte:02x}" for byte in PNG)
IMAGE = RawBytesMediaIO("image")


def decode(text: str, max_bytes: int = 1 << 20) -> bytes:
    return DataPayload.parse(DataUrl(text), max_bytes).decode(max_bytes)


@pytest.mark.parametrize(
    "text",
    [
        f"data:image/png;base64,{BASE64}",
        f"DATA:image/PNG;BASE64,{BASE64}",
        f"data:image/png; base64,{BASE64}",
        f"data:;base64,{BASE64}",
        f"data:image/png;charset=utf-8;name=a.png;base64,{BASE64}",
        "data:image/png;base64," + BASE64.replace("+", "%2B").replace("/", "%2f").replace("=", "%3D"),
        f"data:application/octet-stream,{ESCAPED}",
        f"data:,{ESCAPED}",
        f"data:image/png;base64x,{ESCAPED}",
        f"data:image/png;base64,{BASE64.rstrip('=')}",
        "data:image/png;base64," + "\r\n".join(textwrap.wrap(BASE64, 76)) + "\r\n",
        f"data:image/png;base64,\t {BASE64[:7]}\f{BASE64[7:]} ",
        "data:image/png;base64," + "%0A".join(textwrap.wrap(BASE64, 64)),
        f'data:image/png;name="a,b;base64,c.png";base64,{BASE64}',
        f'data:image/png;name="a\\",b.png";base64,{BASE64}',
        f'data:image/png;name=a"b.png;base64,{BASE64}',
    ],
    ids=lambda text: text[:40],
)
def test_all_forms_of_one_payload_decode_to_it(text: str) -> None:
    assert decode(text) == PNG


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("data:image/svg+xml,%3Csvg/%3E", b"<svg/>"),
        ("data:,a,b", b"a,b"),
        ("data:,a%20b c", b"a b c"),
        ("data:,a+b?c", b"a+b?c"),
        ("data:;base64,QQ==", b"A"),
        ("data:;base64,QQ", b"A"),
        ("data:;base64,QUI", b"AB"),
        ("data:;base64,Q Q\n=\t=", b"A"),
        ("data:;base64,QR==", b"A"),
        ("data:;base64,QUI=", b"AB"),
        ("data:;base64,QUJD", b"ABC"),
    ],
)
def test_small_payloads(text: str, payload: bytes) -> None:
    assert decode(text) == payload


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("data:", BadUrlError),
        ("data:image/png;base64", BadUrlError),
        (f"data:{'a' * 5000},x", BadUrlError),
        ("data:image/png;base64;name=x,QUJD", BadUrlError),
        ("data:,", UnprocessableMediaError),
        ("data:image/png;base64,", UnprocessableMediaError),
        ("data:;base64,Q", BadUrlError),
        ("data:;base64,QUJDQ", BadUrlError),
        ("data:;base64,QQ=", BadUrlError),
        ("data:;base64,QQ=\n", BadUrlError),
        ("data:;base64,QQ =", BadUrlError),
        ("data:;base64,Q=Q=", BadUrlError),
        ("data:;base64,QU\vJD", BadUrlError),
        ("data:;base64,QU\xa0JD", BadUrlError),
        ("data:;base64,QU-_", BadUrlError),
        ("data:;base64, \n", UnprocessableMediaError),
        ("data:;base64,%20", UnprocessableMediaError),
        ('data:image/png;name="a.png;base64,QUJD#', BadUrlError),
        ("data:;base64,!!!!", BadUrlError),
        ("data:;base64,AAAA====", BadUrlError),
        ("data:;base64,====", BadUrlError),
        ("data:;base64,QQ==QQ==", BadUrlError),
        ("data:;base64,-_-_", BadUrlError),
        ("data:;base64,QUJD#fragment", BadUrlError),
        ("data:;base64,QU%4", BadUrlError),
        ("data:;base64,QUÄD", BadUrlError),
        ("data:,Ä", BadUrlError),
        ("data:,100%", BadUrlError),
        ("data:,%zz", BadUrlError),
        ("data:,<svg fill='#fff'>", BadUrlError),
    ],
)
def test_what_is_nearly_a_payload_is_refused(text: str, error: type[LazyMediaError]) -> None:
    with pytest.raises(error) as caught:
        decode(text)

    assert "QUJD" not in str(caught.value)


def test_padding_between_blocks_is_refused() -> None:
    """Blocks are decoded one by one, so each could end in padding."""
    block = "QUJD" * (1 << 14)
    with pytest.raises(BadUrlError):
        decode(f"data:;base64,{block[:-4]}QQ=={block}")
    assert len(decode(f"data:;base64,{block}QQ==")) == 3 * (1 << 14) + 1


@pytest.mark.parametrize("size", [1, 2, 3, 65535, 65536, 65537, 196_607, 196_608, 196_609])
@pytest.mark.parametrize("form", ["base64", "wrapped base64", "bare base64", "escaped base64", "escaped", "mixed"])
def test_blocks_join_to_the_payload(size: int, form: str) -> None:
    payload = random.Random(size).randbytes(size)
    text = base64.b64encode(payload).decode()
    match form:
        case "base64":
            url = f"data:;base64,{text}"
        case "wrapped base64":
            url = "data:;base64," + "\n".join(text[start : start + 76] for start in range(0, len(text), 76))
        case "bare base64":
            url = f"data:;base64,{text.rstrip('=')}"
        case "escaped base64":
            url = "data:;base64," + text.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D")
        case "escaped":
            url = "data:," + "".join(f"%{byte:02X}" for byte in payload)
        case _:
            url = "data:," + "".join(
                f"%{byte:02X}" if byte % 3 or byte > 126 or byte < 48 else chr(byte) for byte in payload
            )

    assert decode(url) == payload


def test_escapes_are_read_as_the_standard_library_reads_them() -> None:
    dice = random.Random(20260913)
    plain = [chr(code) for code in range(128) if chr(code) not in "%#"] + list("=_ \r\n\t=") * 5
    for _ in range(2000):
        text = "".join(
            dice.choice(plain) if dice.random() < 0.7 else f"%{dice.randrange(256):02x}"
            for _ in range(dice.randrange(1, 40))
        )

        assert decode(f"data:,{text}") == unquote_to_bytes(text)


@pytest.mark.parametrize("prefix", ["data:;base64,", "data:,"])
@pytest.mark.parametrize("cap", [10, 11, 12, 100])
def test_the_byte_cap_is_exact(prefix: str, cap: int) -> None:
    def url(payload: bytes) -> str:
        return prefix + (base64.b64encode(payload).decode() if "base64" in prefix else payload.decode())

    assert decode(url(b"x" * cap), cap) == b"x" * cap
    with pytest.raises(PayloadTooLargeError):
        decode(url(b"x" * (cap + 1)), cap)


@pytest.mark.parametrize(
    "text", ["data:;base64," + "QUJD" * 4_000_000, "data:," + "%41" * 4_000_000, "data:," + "a" * 12_200_000]
)
def test_a_payload_over_the_cap_is_refused_before_it_is_decoded(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(PayloadTooLargeError):
            decode(text, 1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1 << 20


def test_escapes_do_not_multiply_the_memory() -> None:
    """Unescaped in one go, every escape would become an object of some forty bytes."""
    text = "data:," + "%41" * (8 << 20)
    tracemalloc.start()
    try:
        assert len(decode(text, 16 << 20)) == 8 << 20
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 32 << 20


LINE = BASE64.replace("=", "") + "\n"
LONG = {
    "escapes": "data:," + "%41" * 3_000_000,
    "no escapes": "data:," + "a" * 9_000_000,
    "half an escape at the end": "data:," + "%41" * 3_000_000 + "%4",
    "a fragment at the end": "data:," + "a" * 9_000_000 + "#",
    "base64": "data:;base64," + "QUJD" * 2_200_000,
    "base64 in lines": "data:;base64," + (LINE * 4) * 6_000,
    "base64 with escapes": "data:;base64," + "QU%4a%2F" * 1_000_000,
    "base64 of the other alphabet at the end": "data:;base64," + "QUJD" * 2_200_000 + "-_-_",
    "base64 of spaces": "data:;base64," + " " * 9_000_000,
    "base64 of escaped spaces": "data:;base64," + "%20" * 3_000_000,
    "a media type of open quotes": 'data:"' + '\\"' * 2_000 + ",a",
    "a media type of quotes and a backslash": 'data:"' + '\\"' * 2_000 + "\\,a",
    "parameters of open quotes": "data:" + ';"' * 2_000 + ",a",
}


def longest_call(fn: Callable[[], object]) -> float:
    """Seconds of the longest call into C that ``fn`` makes, on its own clock: other threads wait for so long."""
    longest, began = 0.0, 0.0

    def watch(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal longest, began
        now = time.thread_time()
        if event == "c_return" and type(arg.__self__).__module__ != "_hashlib":  # which releases the lock
            longest = max(longest, now - began)
        began = time.thread_time()

    sys.setprofile(watch)
    try:
        fn()
    except (BadUrlError, UnprocessableMediaError):
        pass
    finally:
        sys.setprofile(None)
    return longest


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("media_io", [RawBytesMediaIO("image"), VideoMediaIO()], ids=["raw", "video"])
def test_no_step_over_a_long_data_url_holds_the_interpreters_lock_for_long(
    name: str, media_io: MediaIO[object]
) -> None:
    """The event loop waits for whichever call holds it. 20 ms are allowed in all, of which 5 are a thread's turn."""
    url = DataUrl(LONG[name])
    media = MediaConnector()
    # The best of a few runs: a page fault or a step of the clock is not the code's doing.
    assert any(
        longest_call(lambda: media._load_data_url(url, 1 << 28, [media_io])) < 0.01 * slowness() for _ in range(3)
    )


class WhereIO(RawBytesMediaIO):
    """Remembers the thread in which its references are built."""

    def __init__(self) -> None:
        super().__init__("image")
        self.threads: list[threading.Thread] = []

    def load_bytes_ref(self, data: bytes) -> MediaRef[bytes]:
        self.threads.append(threading.current_thread())
        return super().load_bytes_ref(data)


async def test_a_data_url_is_decoded_and_keyed_off_the_loop() -> None:
    media_io = WhereIO()
    async with MediaConnector() as media:
        ref = await media.fetch_image(f"data:image/png;base64,{BASE64}", media_io)

    assert ref.data == PNG
    assert media_io.threads != [threading.current_thread()]


async def test_equal_payloads_have_equal_keys_whatever_their_urls_say() -> None:
    async with MediaConnector() as media:
        one = await media.fetch_image(f"data:image/png;charset=utf-8;base64,{BASE64}", IMAGE)
        other = await media.fetch_image(f"data:text/html,{ESCAPED}", IMAGE)

    assert one.key == other.key


async def test_the_smaller_cap_of_decoder_and_connector_holds() -> None:
    small = RawBytesMediaIO("image", limits=Limits(max_image_bytes=10))
    async with MediaConnector(limits=Limits(max_download_bytes=20)) as media:
        assert (await media.fetch_image("data:," + "a" * 10, small)).data == b"a" * 10
        for media_io, size in ((small, 11), (IMAGE, 21)):
            with pytest.raises(PayloadTooLargeError):
                await media.fetch_image("data:," + "a" * size, media_io)


async def test_domain_rules_do_not_concern_data_urls() -> None:
    async with MediaConnector(allowed_media_domains=[]) as media:
        assert (await media.fetch_image("data:,payload", IMAGE)).data == b"payload"


class OwnVideoIO(VideoMediaIO):
    """A video decoder with one more."""

    def load_base64_ref(self, media_type: str, text: str) -> MediaRef[Any]:
        return super().load_base64_ref(media_type, text)


class FramesIO(RawBytesMediaIO):
    """A decoder with a reading of its own for base64 text."""

    def load_base64_ref(self, media_type: str, text: str) -> MediaRef[bytes]:
        frames = b"".join(base64.b64decode(frame) for frame in text.split(","))
        return super().load_bytes_ref(hashlib.sha256(media_type.encode()).digest() + frames)


@pytest.mark.parametrize(
    ("media_io", "media_type", "reads"),
    [
        (IMAGE, "image/png", False),
        (FramesIO("video"), "video/mp4", True),
        (VideoMediaIO(), "video/mp4", False),
        (VideoMediaIO(), "video/jpeg", True),
        (VideoMediaIO(), "VIDEO/JPEG", True),
        (OwnVideoIO(), "video/mp4", True),
    ],
)
def test_a_decoder_says_of_which_types_it_reads_base64(media_io: MediaIO[object], media_type: str, reads: bool) -> None:
    """A connector decodes the others in blocks."""
    assert media_io.reads_base64(media_type) is reads


async def test_a_decoder_with_its_own_reading_of_base64_gets_the_text() -> None:
    async with MediaConnector() as media:
        ref = await media.fetch_video("data:video/JPEG;base64,QUJD,QUJ%44", FramesIO("video"))

    assert ref.data == hashlib.sha256(b"video/jpeg").digest() + b"ABCABC"
