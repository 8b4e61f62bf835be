"""A picture checked by its beginning: rejected where the whole would be, and never for being incomplete."""

from __future__ import annotations

from typing import Any

import pytest

from lazymedia.errors import UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media import MediaIO
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.testing.media import make_image

KINDS = ("JPEG", "PNG", "WEBP", "GIF", "AVIF", "BMP", "TIFF")
EVERY = (*Limits().image_formats, "TIFF")
WIDTH, HEIGHT = 48, 32


def payload(kind: str) -> bytes:
    save: dict[str, Any] = {"exif": b"Exif\0\0" + bytes(200)} if kind == "JPEG" else {}
    return make_image(WIDTH, HEIGHT, format=kind, **save)


def decoder(**limits: int) -> ImageMediaIO:
    return ImageMediaIO(limits=Limits(image_formats=EVERY, **limits))


def enough(media_io: ImageMediaIO, head: bytes) -> bool | None:
    """Whether enough was seen; None where it was rejected."""
    try:
        return media_io.check_header(head, None)
    except UnprocessableMediaError:
        return None


@pytest.mark.parametrize("kind", KINDS)
def test_no_beginning_of_a_sound_picture_is_rejected(kind: str) -> None:
    data = payload(kind)
    exact = decoder(max_image_pixels=WIDTH * HEIGHT, max_image_side=WIDTH)
    results = [enough(exact, data[:size]) for size in range(len(data) + 1)]
    assert None not in results
    assert results[-1] is True
    assert results[0] is False


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [{"max_image_pixels": WIDTH * HEIGHT - 1}, {"max_image_side": WIDTH - 1}])
def test_a_picture_over_a_limit_is_rejected_as_soon_as_its_header_is_there(kind: str, limit: dict[str, int]) -> None:
    """And no beginning is reported as enough to accept it."""
    data, tight = payload(kind), decoder(**limit)
    with pytest.raises(UnprocessableMediaError):
        tight.load_bytes_ref(data)
    results = [enough(tight, data[:size]) for size in range(len(data) + 1)]
    assert True not in results
    first = results.index(None)
    if kind == "AVIF":  # a part of its header may be read where it is cut, as no picture at all
        assert len(data) - results[::-1].index(False) < 400
    else:
        assert set(results[first:]) == {None}
    if kind != "TIFF":  # which keeps its header behind the pixels
        assert first < 900


def test_chunks_and_formats_are_checked_as_for_the_whole() -> None:
    data = payload("PNG")
    many = data[:33] + b"\0\0\0\0tEXt\0\0\0\0" * 5000 + data[33:]
    assert enough(decoder(), many[: 64 << 10]) is None
    assert enough(ImageMediaIO(limits=Limits(image_formats=("JPEG",))), data) is False, "reported when it is decoded"
    assert enough(decoder(), b"<html>") is False


def test_other_decoders_check_nothing_early() -> None:
    assert RawBytesMediaIO("video").check_header(b"", None)


def test_a_class_that_overrides_the_reading_must_declare_again_that_it_is_quick() -> None:
    """Or a long computation of a subclass would run on the loop."""

    class Own(ImageMediaIO):
        def load_bytes_ref(self, data: bytes) -> object:  # type: ignore[override]  # never called
            raise AssertionError

    class OwnAndQuick(Own):
        reads_quickly = True

        def load_bytes_ref(self, data: bytes) -> object:  # type: ignore[override]  # never called
            raise AssertionError

    class Other(ImageMediaIO):
        pass

    flags = [kind.reads_quickly for kind in (MediaIO, ImageMediaIO, Own, OwnAndQuick, Other)]
    assert flags == [False, True, False, True, True]
