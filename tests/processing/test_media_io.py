"""Which decoder a processor wants, under the operator's options and a request's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from lazymedia.errors import PayloadTooLargeError, UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.image import ImageMediaIO
from lazymedia.models import processing_info
from lazymedia.processing import ProcessingInfo
from lazymedia.testing.media import make_image
from lazymedia.testing.processors import make_processor
from tests.infos import FAMILIES

GetInfo = Callable[..., ProcessingInfo]


def with_options(options: dict[str, Any], limits: Limits | None = None) -> ProcessingInfo:
    return processing_info(make_processor("llava"), media_io_kwargs={"image": options}, limits=limits)


@pytest.mark.parametrize("family", FAMILIES)
def test_pictures_are_decoded_to_rgb(get_info: GetInfo, family: str) -> None:
    media_io = get_info(family).get_media_io("image")

    assert isinstance(media_io, ImageMediaIO)
    assert media_io.get_decode_spec().settings["image_mode"] == "RGB"


def test_a_request_goes_above_the_operator_who_goes_above_the_default() -> None:
    info = with_options({"image_mode": "L", "rgba_background_color": (1, 2, 3)})

    assert info.get_media_io("image").get_decode_spec().settings == {
        "image_mode": "L",
        "rgba_background_color": [1, 2, 3],
    }
    assert info.get_media_io("image", {"image_mode": "RGBA"}).get_decode_spec().settings["image_mode"] == "RGBA"


def test_the_operators_limits_hold_in_the_decoder() -> None:
    info = with_options({}, Limits(max_image_bytes=10))

    with pytest.raises(PayloadTooLargeError):
        info.get_media_io("image").load_bytes_ref(make_image())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"image_made": "RGB"}, "decoder options: image_made cannot be chosen for image"),
        ({"limits": None}, "limits cannot be chosen"),
        ({"output": "array"}, "output cannot be chosen"),
        ({"image_mode": "CMYK"}, "image_mode of image: "),
        ({"rgba_background_color": 5}, "rgba_background_color of image: "),
        ({5: 6}, "5 cannot be chosen"),
    ],
    ids=str,
)
def test_an_option_that_cannot_be_used_is_the_requests_fault(
    get_info: GetInfo, options: dict[Any, Any], text: str
) -> None:
    with pytest.raises(UnprocessableMediaError, match=text) as caught:
        get_info("llava").get_media_io("image", options)

    assert caught.value.modality == "image"


@pytest.mark.parametrize("options", [{"image_mode": "CMYK"}, {"image_made": "RGB"}])
def test_the_operators_own_mistake_is_no_requests_fault(options: dict[str, str]) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        with_options(options).get_media_io("image")

    assert not isinstance(caught.value, UnprocessableMediaError)


@pytest.mark.parametrize("size", [(120, 80), (1, 60), (3, 40)])
@pytest.mark.parametrize("family", FAMILIES)
def test_pictures_decoded_to_arrays_give_what_pillow_images_give(family: str, size: tuple[int, int]) -> None:
    processor = make_processor(family)
    data = make_image(*size, format="JPEG", quality=90)
    made = []
    for options in ({"output": "pil"}, {"output": "array"}):
        info = processing_info(processor, media_io_kwargs={"image": options})
        media = info.get_media_io("image").load_bytes_ref(data).decode()
        made.append(info.process_item("image", media).features)

    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])


@pytest.mark.parametrize("mode", ["LA", "RGBA", "L"])
def test_stored_modes_give_the_same_as_arrays(mode: str) -> None:
    processor = make_processor("llava")
    data = make_image(mode=mode)
    made = []
    for output in ("pil", "array"):
        info = processing_info(processor, media_io_kwargs={"image": {"output": output, "image_mode": None}})
        media = info.get_media_io("image").load_bytes_ref(data).decode()
        made.append(info.process_item("image", media).features["pixel_values"])

    assert np.array_equal(made[0], made[1])
