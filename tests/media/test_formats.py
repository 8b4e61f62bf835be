"""The table of formats: each payload is of one format, whatever reads it."""

from __future__ import annotations

from itertools import chain

import pytest

from lazymedia.media import formats
from lazymedia.media.audio import formats as audio_formats
from lazymedia.media.formats import Format, Signature
from lazymedia.media.image import header
from lazymedia.media.video import container
from tests.media import pictures

ALL = [value for value in vars(formats).values() if isinstance(value, Format)]
SIGNED = [(known, signature) for known in ALL for signature in known.signatures]
SAMPLES = {kind: pictures.encode(pictures.photo(), kind) for kind in pictures.ALL_FORMATS}


def payload(signature: Signature) -> bytes:
    made = bytearray(b"\1" * 40)
    for at, part in signature:
        made[at : at + len(part)] = part
    return bytes(made)


@pytest.mark.parametrize(("known", "signature"), SIGNED, ids=lambda value: getattr(value, "name", ""))
def test_a_signature_is_that_of_one_format(known: Format, signature: Signature) -> None:
    matching = [other for other in ALL if other.matches(payload(signature))]
    if known is formats.HEIF:  # a box of which pictures and videos are made
        assert matching == [formats.HEIF, formats.MP4]
    else:
        assert matching == [known]


@pytest.mark.parametrize("kind", SAMPLES)
def test_pictures_are_identified_and_shorter_beginnings_are_not(kind: str) -> None:
    data = SAMPLES[kind]
    assert header.identify(data) == kind
    known = formats.identify(data, formats.IMAGES)
    assert known is not None
    lengths = [length for length in range(40) if known.matches(data[:length])]
    assert lengths == list(range(lengths[0], 40)), "once it is identified, further bytes change nothing"
    assert lengths[0] >= 2


@pytest.mark.parametrize("brand", [b"avif", b"avis"])
@pytest.mark.parametrize("place", ["major", "compatible"])
def test_avif_is_named_by_any_brand_and_comes_before_heif(brand: bytes, place: str) -> None:
    brands = brand + b"\0\0\0\0mif1" if place == "major" else b"mif1\0\0\0\0heic" + brand
    data = pictures.box(b"ftyp", brands) + bytes(40)
    assert formats.identify(data, formats.IMAGES) is formats.AVIF


def test_a_name_or_media_type_stands_for_one_format() -> None:
    assert len({known.name for known in ALL}) == len(ALL)
    types = list(chain.from_iterable(known.content_types for known in ALL))
    assert len(set(types)) == len(types)
    assert all(known.content_types for known in ALL)
    assert all(name == name.lower() and name.count("/") == 1 for name in types)


@pytest.mark.parametrize("signature", formats.MP4.signatures, ids=lambda signature: signature[0][1].decode())
def test_audio_and_video_agree_on_how_an_mp4_begins(signature: Signature) -> None:
    assert container.identify(payload(signature)) == "mov"
    assert audio_formats.sniff(payload(signature)) is audio_formats.MP4
