"""What a `ProcessingInfo` declares is checked when it is made, and an integrator's mistake never blames a client."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import transformers

from lazymedia.errors import DecoderCrashedError, LazyMediaError, UnprocessableMediaError
from lazymedia.media.image import ImageMediaIO
from lazymedia.models import processing_info, register_family
from lazymedia.models.llava import LlavaInfo
from lazymedia.pipeline import MultiModalProcessor
from lazymedia.processing import Batched, Flat, ProcessingInfo
from lazymedia.testing.decoders import GatedMediaIO
from lazymedia.testing.media import make_image, picture
from lazymedia.testing.processors import make_processor, make_tokenizer

PIXELS = {"pixel_values": Batched()}


def declared(**attributes: object) -> type[ProcessingInfo]:
    return type("Mine", (ProcessingInfo,), {"layouts": {"image": PIXELS}, **attributes})


def processor_with(**attributes: object) -> Any:
    """A LLaVA processor with steps of its own."""
    made = make_processor("llava")
    made.__class__ = type("Mine", (type(made),), attributes)
    return made


DECLARATIONS = [
    pytest.param({"layouts": {"images": PIXELS}}, ValueError, "layouts: 'images' is no", id="layouts of another name"),
    pytest.param({"layouts": {"video": PIXELS}}, ValueError, "'video' is none of the modalities", id="another's"),
    pytest.param(
        {"layouts": {"image": {"pixel_values": Batched}}}, TypeError, "'pixel_values'.* must be a layout", id="a class"
    ),
    pytest.param({"modalities": ("image", "video")}, TypeError, "it has no .*video_processor", id="video"),
    pytest.param({"modalities": ("image", "smell")}, ValueError, "'smell' is no", id="an unknown modality"),
    pytest.param({"modalities": "image"}, TypeError, "must be a tuple", id="one text for modalities"),
    pytest.param({"operator_only": "size"}, TypeError, "must be a set", id="one text for options"),
    pytest.param({"chat_style": "USER:"}, TypeError, "must be a ChatStyle", id="a text for a chat style"),
    pytest.param({"merge": lambda *_: {}}, TypeError, r"overrides merge\(\)", id="an override that is not used"),
    pytest.param({"text_outputs": lambda *_: {}}, TypeError, r"overrides text_outputs\(\)", id="another"),
]


@pytest.mark.parametrize(("attributes", "kind", "text"), DECLARATIONS)
def test_a_declaration_is_checked_when_an_info_is_made(
    attributes: dict[str, Any], kind: type[Exception], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lazymedia.models.registry._FAMILIES", {})
    register_family("LlavaProcessor", declared(**attributes))
    for make in (declared(**attributes), processing_info):
        with pytest.raises(kind, match=text) as caught:
            make(make_processor("llava"))
        assert not isinstance(caught.value, LazyMediaError)


def test_the_base_class_declares_nothing_and_finds_out() -> None:
    info = ProcessingInfo(make_processor("llava"))

    assert info.layouts_of("image") == {"pixel_values": Flat()}


@pytest.mark.parametrize(
    ("processor", "missing"),
    [
        (lambda: None, "tokenizer"),
        (lambda: make_processor("llava").tokenizer, "_merge_kwargs"),
        (lambda: make_processor("llava").image_processor, "tokenizer"),
        (lambda: processor_with(_process_images=None), "_process_images"),
        (lambda: processor_with(image_processor=property(lambda _: None)), "image_processor"),
    ],
    ids=["none", "a tokenizer", "an image processor", "without a step", "without a part"],
)
def test_what_is_no_processor_is_refused_with_what_it_lacks(processor: Any, missing: str) -> None:
    with pytest.raises(TypeError, match=f"is no processor that LlavaInfo can use: it has no .*{missing}"):
        LlavaInfo(processor())


def wants_more(self: Any, images: Any, tiles: int, **kwargs: Any) -> Any:
    raise AssertionError("not reached")


def wants_one_modality(self: Any, images: Any, text: Any) -> Any:
    raise AssertionError("not reached")


@pytest.mark.parametrize(
    ("step", "own", "argument"),
    [("_process_images", wants_more, "tiles"), ("prepare_inputs_layout", wants_one_modality, "text")],
)
def test_a_step_that_wants_an_argument_is_refused_by_name(step: str, own: Any, argument: str) -> None:
    processor = processor_with(**{step: own})
    with pytest.raises(TypeError, match=f"Mine.{step} cannot be called for one item .*'{argument}'"):
        LlavaInfo(processor)

    class Own(LlavaInfo):
        def process_item(self, *_: Any, **__: Any) -> Any: ...

    Own(processor)


def test_a_step_may_want_what_the_options_hold() -> None:
    def step(self: Any, images: Any, size: Any = None, *, return_tensors: Any, **kwargs: Any) -> Any:
        return transformers.LlavaProcessor._process_images(
            self, images, return_tensors=return_tensors, **kwargs, **({} if size is None else {"size": size})
        )

    info = LlavaInfo(processor_with(_process_images=step))

    assert info.process_item("image", picture(30, 20)).features


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"return_tensors": "tf"}, "return_tensors must be one of np, pt"),
        ({"media_io_kwargs": {"imgae": {}}}, "'imgae': expected image"),
    ],
)
def test_an_argument_that_has_no_such_value_is_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LlavaInfo(make_processor("llava"), **arguments)


def test_a_processor_whose_prompts_mention_no_items_can_be_warmed_up() -> None:
    info = declared()(transformers.CLIPProcessor(transformers.CLIPImageProcessor(), make_tokenizer({})))
    info.warm_up()

    with pytest.raises(NotImplementedError, match="CLIPProcessor has no placeholder for image"):
        info.placeholder("image")


def broken(error: Exception) -> Any:
    def step(*_: Any, **__: Any) -> Any:
        raise error

    return step


MISTAKES = [
    pytest.param({"_process_images": broken(TypeError("an argument is missing"))}, {}, TypeError, id="TypeError"),
    pytest.param({"_process_images": broken(KeyError("size"))}, {}, KeyError, id="KeyError"),
    pytest.param({"_process_images": broken(ValueError("no"))}, {}, ValueError, id="ValueError"),
    pytest.param({"_process_images": broken(AttributeError("no"))}, {}, AttributeError, id="AttributeError"),
    pytest.param({"replace_image_token": broken(IndexError("no"))}, {}, IndexError, id="a replacement"),
    pytest.param({}, {"layouts": {"image": {"other": Batched()}}}, NotImplementedError, id="a layout that is missing"),
    pytest.param({}, {"working_pixels": broken(KeyError("size"))}, KeyError, id="an estimate"),
    pytest.param({}, {"check_picture": broken(TypeError("no"))}, TypeError, id="a check"),
    pytest.param({}, {"process_item": broken(ValueError("no"))}, ValueError, id="an override of processing"),
]


@pytest.mark.parametrize(("steps", "attributes", "kind"), MISTAKES)
async def test_an_integrators_mistake_blames_no_picture(
    steps: dict[str, Any], attributes: dict[str, Any], kind: type[Exception]
) -> None:
    info = type("Mine", (LlavaInfo,), attributes)(processor_with(**steps), return_tensors="np")
    async with MultiModalProcessor(info) as processor:
        ref = ImageMediaIO().load_bytes_ref(make_image())
        with pytest.raises(kind) as caught:
            await processor.apply(processor.make_inputs("<image>", {"image": ref}))

    assert not isinstance(caught.value, LazyMediaError)


async def test_a_picture_is_still_blamed_by_a_processor_that_works() -> None:
    class Picky(LlavaInfo):
        def process_item(self, modality: str, media: Any, mm_processor_kwargs: Any = None) -> Any:
            if getattr(media, "size", None) == (64, 48):
                raise ValueError("this one not")
            return super().process_item(modality, media, mm_processor_kwargs)

    async with MultiModalProcessor(Picky(make_processor("llava"), return_tensors="np")) as processor:
        items = [ImageMediaIO().load_bytes_ref(make_image(*size)) for size in [(20, 20), (64, 48)]]
        with pytest.raises(UnprocessableMediaError, match="image at index 1: this one not") as caught:
            await processor.apply(processor.make_inputs("<image><image>", {"image": items}))

    assert (caught.value.modality, caught.value.index) == ("image", 1)


@pytest.mark.parametrize("media", ["text", np.zeros((576, 4096), np.float32), np.zeros((1, 2, 3, 4), np.uint8), b"", 5])
async def test_a_decoder_that_makes_no_picture_is_at_fault_itself(media: Any) -> None:
    decoder: GatedMediaIO[Any] = GatedMediaIO(media)
    decoder.release()
    async with MultiModalProcessor(LlavaInfo(make_processor("llava"), return_tensors="np")) as processor:
        with pytest.raises(
            DecoderCrashedError, match=r"image at index 0: from its decoder, .* is no picture"
        ) as caught:
            await processor.apply(processor.make_inputs("<image>", {"image": decoder.load_bytes_ref(b"x")}))

    assert caught.value.status_hint == 500
