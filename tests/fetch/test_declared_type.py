"""What a rejection says of the type that a server declared, which decides nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.fetch import MediaConnector
from lazymedia.fetch.http_rules.messages import declared_type
from lazymedia.media import MediaIO, MediaRef
from lazymedia.media.audio import AudioMediaIO
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.video import VideoMediaIO
from lazymedia.testing.audio import make_audio
from lazymedia.testing.media import make_image
from lazymedia.testing.server import MediaServer, Request, Response
from lazymedia.testing.video import make_video

PAGE = b"<!doctype html><html><body>" + b"Please log in. " * 40 + b"</body></html>"
SLIDES = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
DECODERS: Mapping[str, Callable[[], MediaIO[Any]]] = {
    "image": ImageMediaIO,
    "video": VideoMediaIO,
    "audio": AudioMediaIO,
}

modalities = pytest.mark.parametrize("modality", DECODERS)


@asynccontextmanager
async def served(payload: bytes, *types: str) -> AsyncIterator[tuple[MediaConnector, str]]:
    """A connector, and a URL that answers with a payload under these types."""

    async def answer(request: Request) -> Response:
        return Response(headers=tuple(("Content-Type", kind) for kind in types), body=payload)

    async with (
        MediaServer({"/a": answer}) as server,
        MediaConnector(allowed_networks=["127.0.0.0/8"]) as media,
    ):
        yield media, server.url("/a")


async def fetched(modality: str, payload: bytes, *types: str) -> MediaRef[Any]:
    async with served(payload, *types) as (media, url):
        ref: MediaRef[Any] = await getattr(media, f"fetch_{modality}")(url, DECODERS[modality]())
        return ref


def rejection(ref: MediaRef[Any]) -> str:
    with pytest.raises(UnprocessableMediaError) as caught:
        ref.decode()
    return str(caught.value)


def numbers(media: Any) -> Any:
    """Pixels or samples, without what a decoder tells of them."""
    return np.asarray(media[0] if isinstance(media, tuple) else media)


@modalities
@pytest.mark.parametrize(
    ("types", "told"),
    [
        (["text/html"], "text/html"),
        (["Text/HTML ; charset=utf-8"], "text/html"),
        (["application/problem+json"], "application/problem+json"),
        (["text/html", "text/html; charset=utf-8"], "text/html"),
        ([SLIDES], SLIDES[:61] + "..."),
        ([], None),
        ([""], None),
        (["html"], None),
        (["text/html, text/plain"], None),
        (["text/html", "text/plain"], None),
        (["text/<b>"], None),
        (["text/" + "a b" * 1000], None),
    ],
)
async def test_a_refusal_says_what_the_server_declared(modality: str, types: list[str], told: str | None) -> None:
    text = rejection(await fetched(modality, PAGE, *types))

    assert text.startswith(f"not a supported {modality.replace('image', 'picture')} format")
    if told is None:
        assert "declared" not in text
    else:
        assert text.endswith(f" (the server declared {told})")
    assert text.isascii()
    assert text.isprintable()


@pytest.mark.parametrize(
    "value",
    [b"text/h\x1b[2Jtml", b"text/html\xe9", b"text/ht\nml", b"text/html\x00", b"text/a b", b"/", b"text/", b"../etc"],
)
def test_what_is_no_type_or_not_to_be_printed_is_not_told(value: bytes) -> None:
    assert declared_type([(b"content-type", value)]) is None


@modalities
async def test_a_type_of_the_kind_that_was_asked_for_is_no_news(modality: str) -> None:
    assert "declared" not in rejection(await fetched(modality, PAGE, f"{modality}/x-unheard-of"))


@pytest.mark.parametrize(
    ("modality", "payload"),
    [("image", make_image(40, 30)), ("video", make_video(5)), ("audio", make_audio(0.1, 8000))],
    ids=DECODERS,
)
@pytest.mark.parametrize("kind", ["text/html", "application/octet-stream", "image/gif", "video/mp4", "audio/mpeg"])
async def test_what_was_declared_changes_nothing_but_a_text(modality: str, payload: bytes, kind: str) -> None:
    ref, plain = await fetched(modality, payload, kind), DECODERS[modality]().load_bytes_ref(payload)

    assert (ref.key, ref.spec, ref.decoded_bytes) == (plain.key, plain.spec, plain.decoded_bytes)
    assert ref.outline() == plain.outline()
    assert np.array_equal(numbers(ref.decode()), numbers(plain.decode()))


async def test_a_video_and_its_sound_both_say_it_and_so_does_an_outline() -> None:
    async with served(PAGE, "text/html") as (media, url):
        video_ref, audio_ref = await media.fetch_video_and_audio(url, VideoMediaIO(), AudioMediaIO())

    for ref in (video_ref, audio_ref, video_ref.fork(), audio_ref.map(len)):
        assert rejection(ref).endswith("(the server declared text/html)")
    with pytest.raises(UnprocessableMediaError, match=r"\(the server declared text/html\)$"):
        video_ref.outline()


async def test_other_failures_are_left_alone() -> None:
    """They are not about the payload, and may be of classes that nobody here knows."""
    broken = LookupError("no such codec")

    class Broken(ImageMediaIO):
        def load_bytes(self, data: bytes) -> Any:
            raise broken

    async with served(PAGE, "text/html") as (media, url):
        ref = await media.fetch_image(url, Broken())
    with pytest.raises(LookupError) as caught:
        ref.decode()

    assert caught.value is broken
