"""The options of an `ImageMediaIO`, and how they change keys."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import Any

import pytest

from lazymedia.errors import PayloadTooLargeError, UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.image import ImageMediaIO
from tests.media import pictures


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ({}, {"image_mode": "RGB", "rgba_background_color": [255, 255, 255]}),
        ({"image_mode": None}, {"image_mode": None, "rgba_background_color": [255, 255, 255]}),
        ({"rgba_background_color": [1, 2, 3]}, {"image_mode": "RGB", "rgba_background_color": [1, 2, 3]}),
        ({"rgba_background_color": None}, {"image_mode": "RGB", "rgba_background_color": [255, 255, 255]}),
        ({"image_id": "trust"}, {"image_mode": "RGB", "rgba_background_color": [255, 255, 255]}),
        (
            {"image_mode": "L", "output": "array"},
            {"image_mode": "L", "rgba_background_color": [255, 255, 255], "output": "array"},
        ),
    ],
)
def test_the_spec_holds_what_changes_the_picture_and_nothing_else(
    arguments: dict[str, Any], settings: dict[str, Any]
) -> None:
    image_io = ImageMediaIO(**arguments)
    assert image_io.get_decode_spec().settings == settings
    assert image_io.load_bytes_ref(pictures.encode(pictures.corners(), "PNG")).spec == image_io.get_decode_spec()


def test_a_key_is_the_documented_hash_of_payload_and_spec() -> None:
    data = pictures.encode(pictures.corners(), "PNG")
    spec = b'{"image_mode":"RGB","rgba_background_color":[255,255,255]}'
    expected = len(data).to_bytes(8, "little") + data + len(spec).to_bytes(8, "little") + spec
    assert ImageMediaIO().load_bytes_ref(data).key == hashlib.sha256(expected).digest()


def test_every_setting_that_changes_the_picture_changes_the_key() -> None:
    data = pictures.encode(pictures.corners(), "PNG")
    variants: list[dict[str, Any]] = [
        {},
        {"image_mode": None},
        {"image_mode": "L"},
        {"image_mode": "RGBA"},
        {"rgba_background_color": (0, 0, 0)},
        {"output": "array"},
    ]
    assert len({ImageMediaIO(**variant).load_bytes_ref(data).key for variant in variants}) == len(variants)


@pytest.mark.parametrize(
    "arguments",
    [
        {"image_mode": "rgb"},
        {"image_mode": "F"},
        {"image_mode": ""},
        {"image_mode": 3},
        {"image_mode": ["RGB"]},
        {"rgba_background_color": (1, 2)},
        {"rgba_background_color": (1, 2, 3, 4)},
        {"rgba_background_color": (1, 2, 256)},
        {"rgba_background_color": (-1, 2, 3)},
        {"rgba_background_color": (1.0, 2, 3)},
        {"rgba_background_color": (True, 2, 3)},
        {"rgba_background_color": "abc"},
        {"rgba_background_color": 7},
        {"rgba_background_color": b"\x01\x02\x03"},
        {"output": "tensor"},
        {"output": None},
        {"image_id": True},
        {"limits": Limits(image_formats=("PNG", "JPG"))},
    ],
    ids=str,
)
def test_an_unknown_value_of_an_option_is_rejected(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ImageMediaIO(**arguments)


@pytest.mark.parametrize("name", ["limits", "output", "image_id"])
def test_a_request_may_not_choose_the_operators_options(name: str) -> None:
    with pytest.raises(UnprocessableMediaError, match=name):
        ImageMediaIO.merge_kwargs({"image_mode": "RGB"}, {name: "anything"})
    assert ImageMediaIO.merge_kwargs({name: 1}, {"image_mode": "L"}) == {name: 1, "image_mode": "L"}


def test_a_payload_of_too_many_bytes_is_rejected_before_it_is_read() -> None:
    image_io = ImageMediaIO(limits=Limits(max_image_bytes=100))
    with pytest.raises(PayloadTooLargeError):
        image_io.load_bytes_ref(b"x" * 101)


def test_references_are_made_without_loading_pillow_or_numpy() -> None:
    """In a process of its own, for the formats whose headers Pillow does not read, and with ImageIDs trusted."""
    payloads = [pictures.encode(pictures.corners(), kind) for kind in ("JPEG", "PNG", "WEBP", "AVIF")]
    script = (
        "import sys\n"
        "from lazymedia.media.image import ImageMediaIO, probe\n"
        f"for data in {payloads!r}:\n"
        "    ref = ImageMediaIO(image_id='trust').load_bytes_ref(data)\n"
        "    assert not ref.is_decoded and probe(data).width == 40\n"
        "assert 'PIL' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
