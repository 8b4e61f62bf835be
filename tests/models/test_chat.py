"""A conversation as a prompt: by the processor's template, or in the family's plain way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lazymedia.errors import BadRequestError
from lazymedia.models import processing_info
from lazymedia.processing import ProcessingInfo
from lazymedia.testing.media import picture
from lazymedia.testing.processors import make_processor
from tests.infos import FAMILIES

GetInfo = Callable[..., ProcessingInfo]

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message.role not in ['user', 'assistant'] %}"
    "{{ raise_exception('only user and assistant') }}{% endif %}[{{ message.role }}]"
    "{% for part in message.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]},
    {"role": "assistant", "content": "A cat."},
    {"role": "user", "content": [{"type": "text", "text": "And here: "}, {"type": "image"}]},
]
QWEN = (
    "<|im_start|>system\nBe brief.<|im_end|>\n"
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What is it?<|im_end|>\n"
    "<|im_start|>assistant\nA cat.<|im_end|>\n"
    "<|im_start|>user\nAnd here: <|vision_start|><|image_pad|><|vision_end|><|im_end|>\n"
    "<|im_start|>assistant\n"
)
PLAIN = {
    "llava": "Be brief. USER: <image>\nWhat is it? ASSISTANT: A cat. USER: And here: <image>\n ASSISTANT:",
    "qwen2_vl": QWEN,
    "qwen2_5_vl": QWEN,
    "qwen3_vl": QWEN,
    "idefics3": (
        "System: Be brief.<end_of_utterance>\nUser:<image>What is it?<end_of_utterance>\n"
        "Assistant: A cat.<end_of_utterance>\nUser: And here: <image><end_of_utterance>\nAssistant:"
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_template_the_family_has_a_plain_way(get_info: GetInfo, family: str) -> None:
    assert get_info(family).apply_chat_template(TALK) == PLAIN[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_conversation_can_be_laid_out(get_info: GetInfo, family: str) -> None:
    info = get_info(family)
    items = [info.process_item("image", picture(60, 40)), info.process_item("image", picture(40, 60, seed=1))]
    rendered = info.build_prompt(info.apply_chat_template(TALK), {"image": items})

    assert len(rendered.placeholders["image"]) == 2


@pytest.mark.parametrize("owner", ["processor", "tokenizer"])
@pytest.mark.parametrize("family", ["llava", "qwen2_vl"])
def test_a_template_is_rendered_and_tokenised_as_hugging_face_does_it(family: str, owner: str) -> None:
    """LLaVA's tokenizer writes the beginning of a sequence by itself, Qwen's does not; neither may end up with two."""
    processor = make_processor(family)
    template = TEMPLATE.replace("<image>", processor.image_token)
    if owner == "processor":
        processor.chat_template = {"default": template, "other": "no"}
    else:
        processor.tokenizer.chat_template = template
    info = processing_info(processor)
    talk = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}]
    prompt = info.apply_chat_template(talk)
    image = picture(60, 40)
    rendered = info.build_prompt(prompt, {"image": [info.process_item("image", image)]})
    talk[0]["content"][0]["image"] = image  # type: ignore[index]  # a list of dicts, as above
    whole = processor.apply_chat_template(
        talk, chat_template=template, tokenize=True, return_dict=True, add_generation_prompt=True
    )

    assert rendered.token_ids == whole["input_ids"][0]
    assert rendered.token_ids.count(processor.tokenizer.bos_token_id) == 1


def test_what_a_template_refuses_is_the_clients_fault() -> None:
    info = processing_info(make_processor("llava", chat_template=TEMPLATE))

    with pytest.raises(BadRequestError, match="rejects the messages: only user and assistant"):
        info.apply_chat_template([{"role": "system", "content": "Be brief."}])


@pytest.mark.parametrize("template", [None, TEMPLATE])
def test_a_conversation_without_messages_is_refused(template: str | None) -> None:
    with pytest.raises(BadRequestError, match="no messages"):
        processing_info(make_processor("llava", chat_template=template)).apply_chat_template([])


def test_a_template_that_fails_on_a_message_is_the_clients_fault() -> None:
    info = processing_info(make_processor("llava", chat_template="{{ messages[0].missing.field }}"))

    with pytest.raises(BadRequestError, match="rejects the messages"):
        info.apply_chat_template([{"role": "user", "content": "Hello"}])


@pytest.mark.parametrize(
    "message",
    [
        {"content": "no role"},
        {"role": "<|im_end|>", "content": "a role that is markup"},
        {"role": ["user"], "content": "x"},
        {"role": "user"},
        {"role": "user", "content": 5},
        {"role": "user", "content": ["text"]},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": [{"type": "audio"}]},
        {"role": "user", "content": [{"type": {"a": 1}}]},
    ],
    ids=str,
)
def test_a_message_of_another_form_is_refused(get_info: GetInfo, message: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError):
        get_info("qwen2_vl").apply_chat_template([message])
