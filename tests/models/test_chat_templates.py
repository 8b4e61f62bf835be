"""Chat templates of every shape that models are published with: each conversation reaches them whole, in any form.

The templates here are written for these tests. Each has the shape of a published one, which its comment names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lazymedia.chat import parse_chat
from lazymedia.errors import BadRequestError
from lazymedia.models import processing_info
from lazymedia.processing import ProcessingInfo
from lazymedia.testing import make_processor

IMAGE = {"type": "image"}

# Parts only, pictures before texts: LLaVA-1.5, LLaVA-NeXT, LLaVA-OneVision.
SELECTATTR = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{% generation %}{{ part['text'] + ' ' }}{% endgeneration %}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
# Parts only, in their order, and a look at the first: Idefics3, SmolVLM.
FIRST_PART = (
    "{% for message in messages %}{{ message['role'] | capitalize }}"
    "{% if message['content'][0]['type'] == 'image' %}:{% else %}: {% endif %}"
    "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}"
    "{% elif line['type'] == 'image' %}<image>{% endif %}{% endfor %}[end]\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
# Parts only, which fails over a string instead of writing nothing: Gemma-like converters.
STRICT_PARTS = (
    "{% for m in messages %}[{{ m.role }}]{% for part in m.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text + '' }}{% endif %}{% endfor %}{% endfor %}"
)
# Either: Qwen2-VL, Qwen2.5-VL.
EITHER = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n"
    "{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' or 'image' in content %}<image>"
    "{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Either, by a macro: Qwen3-VL, Llama 4.
MACRO = (
    "{%- macro say(content) -%}{%- if content is string -%}{{- content -}}"
    "{%- elif content is iterable and content is not mapping -%}{%- for item in content -%}"
    "{%- if item.type == 'image' -%}<image>{%- else -%}{{- item.text -}}{%- endif -%}{%- endfor -%}"
    "{%- elif content is none or content is undefined -%}{%- else -%}"
    "{{- raise_exception('unexpected content') -}}{%- endif -%}{%- endmacro -%}"
    "{%- for m in messages -%}[{{- m.role -}}]{{- say(m.content) -}}{%- endfor -%}"
)
# Strings only, joined: ChatML, Zephyr.
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# Strings only, written as they are, so that a list is written as Python writes it.
WRITTEN = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
FORMATTED = "{% for m in messages %}{{ '[%s]%s' % (m.role, m.content) }}{% endfor %}"
TILDE = "{% for m in messages %}{{ '[' ~ m.role ~ ']' ~ m.content | trim }}{% endfor %}"
# A system message as a string, others as parts: Llama 3.2 Vision.
SYSTEM_STRING = (
    "{% if messages[0]['role'] == 'system' %}[system]{{ messages[0]['content'] | trim }}"
    "{% set messages = messages[1:] %}{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% elif part['type'] == 'text' %}{{ part['text'] | trim }}{% endif %}"
    "{% endfor %}{% endfor %}"
)
# The other way round.
ANSWER_STRING = (
    "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}{{ m.content + '.' }}{% else %}"
    "{% for part in m['content'] %}{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}{% endfor %}"
)
# Media by OpenAI's own type.
URL_TYPE = (
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}{% if part.type == 'image_url' %}<image>"
    "{% elif part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}"
)
# JSON around what is iterable, which a string is too: Llama 3.1's tool answers.
TOJSON = (
    "{% for m in messages %}[{{ m.role }}]{% if m.role == 'tool' and (m.content is mapping or m.content is iterable) %}"
    "{{ m.content | tojson }}{% elif m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{{ '<image>' if part.type == 'image' else part.text }}{% endfor %}{% endif %}{% endfor %}"
)
# Only the text parts, joined by a filter, and the pictures before them.
MAPPED = (
    "{% for m in messages %}[{{ m.role }}]"
    "{{ '<image>' * (m.content | selectattr('type', 'equalto', 'image') | list | length) }}"
    "{{ m.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('') }}{% endfor %}"
)
TEMPLATES = {
    name: value
    for name, value in globals().items()
    if name.isupper() and isinstance(value, str) and "messages" in value
}

SAID = ["Be brief.", "What is it?", "A cat & a <dog>.", "user", "And here:", "again"]
"""The fourth is a word that templates write anyway."""


def conversation(*, strings: bool) -> list[dict[str, Any]]:
    """One conversation; what is text alone is strings or parts."""

    def alone(text: str) -> Any:
        return text if strings else [{"type": "text", "text": text}]

    return [
        {"role": "system", "content": alone(SAID[0])},
        {"role": "user", "content": [IMAGE, {"type": "text", "text": SAID[1]}]},
        {"role": "assistant", "content": alone(SAID[2])},
        {"role": "user", "content": alone(SAID[3])},
        {"role": "assistant", "content": alone("Yes?")},
        {"role": "user", "content": [{"type": "text", "text": SAID[4]}, IMAGE, {"type": "text", "text": SAID[5]}]},
    ]


def info_of(template: str, family: str = "llava") -> ProcessingInfo:
    return processing_info(make_processor(family, chat_template=template))


@pytest.mark.parametrize("strings", [True, False], ids=["strings", "parts"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_loses_text_or_pictures_in_either_form(name: str, strings: bool) -> None:
    prompt = info_of(TEMPLATES[name]).apply_chat_template(conversation(strings=strings))

    position = 0
    for text in SAID:
        position = prompt.index(text, position) + len(text)
    assert prompt.count("<image>") == 2
    assert "'type'" not in prompt
    assert '"type"' not in prompt
    assert prompt.lower().count("user") == 4  # three roles, and one text


@pytest.mark.parametrize("name", ["SELECTATTR", "FIRST_PART", "EITHER", "MACRO", "STRICT_PARTS", "MAPPED"])
def test_a_template_that_takes_parts_gives_what_transformers_gives_for_parts(name: str) -> None:
    processor = make_processor("llava", chat_template=TEMPLATES[name])
    expected = processor.apply_chat_template(conversation(strings=False), add_generation_prompt=True)
    info = processing_info(processor)

    assert info.apply_chat_template(conversation(strings=False)) == expected
    assert info.apply_chat_template(conversation(strings=True)) == expected


def test_a_template_that_joins_strings_gets_placeholders_in_the_order_of_the_parts() -> None:
    """As a family writes them in a text: LLaVA puts each on a line of its own."""
    info = info_of(CHATML)

    assert info.apply_chat_template(conversation(strings=False)[-1:]) == (
        "<|im_start|>user\nAnd here:<image>\nagain<|im_end|>\n<|im_start|>assistant\n"
    )
    two = [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}]
    assert "\none\ntwo<|im_end|>" in info.apply_chat_template(two)
    qwen = info_of(CHATML, "qwen2_vl").apply_chat_template([{"role": "user", "content": [IMAGE]}])
    assert "user\n<|vision_start|><|image_pad|><|vision_end|><|im_end|>" in qwen


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("content", ["absent", None, "", []])
def test_an_assistant_that_says_nothing_beside_its_tool_calls(name: str, content: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "it"}'}}
    messages = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "tool_calls": [call], **({} if content == "absent" else {"content": content})},
        {"role": "tool", "tool_call_id": "c1", "content": 'a "cat"'},
        {"role": "user", "content": "Well?"},
    ]
    prompt = info_of(TEMPLATES[name]).apply_chat_template(parse_chat(messages).messages)

    assert "None" not in prompt
    assert "[]" not in prompt
    said = ["Look.", r"a \"cat\"" if name == "TOJSON" else 'a "cat"', "Well?"]
    assert [text for text in said if text in prompt] == said


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("role", ["developer", "function"])
def test_roles_that_openai_renamed_reach_a_template_that_knows_the_other_name(name: str, role: str) -> None:
    messages = [{"role": role, "content": "Be brief.", "name": "look"}, {"role": "user", "content": "Hello"}]
    prompt = info_of(TEMPLATES[name]).apply_chat_template(messages)

    assert "Be brief." in prompt
    assert "developer" not in prompt.lower()
    assert name != "TOJSON" or role == "developer" or '[tool]"Be brief."' in prompt


def test_a_template_that_knows_the_role_developer_gets_it() -> None:
    template = "{% for m in messages %}{% if m.role == 'developer' %}D{% endif %}{{ m.content }}{% endfor %}"

    assert info_of(template).apply_chat_template([{"role": "developer", "content": "x"}]) == "Dx"


@pytest.mark.parametrize("family", ["llava", "qwen2_vl", "idefics3"])
@pytest.mark.parametrize("role", ["developer", "tool", "function"])
def test_without_a_template_every_role_has_its_place(family: str, role: str) -> None:
    info = processing_info(make_processor(family))
    prompt = info.apply_chat_template(
        [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "tool_calls": [{"function": {"name": "look", "arguments": {"at": "it"}}}]},
            {"role": role, "content": "a cat"},
        ]
    )

    assert "a cat" in prompt
    assert '{"name": "look", "arguments": {"at": "it"}}' in prompt
    assert role not in prompt


# --- who is at fault --------------------------------------------------------------------------------------------------

# Roles in turn, the system message inside the first user message: Llama 2, Mistral.
ALTERNATING = (
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] + ' ' %}"
    "{% set messages = messages[1:] %}"
    "{% else %}{% set system = '' %}{% endif %}"
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user/assistant') }}{% endif %}"
    "{% if m['role'] == 'user' %}[INST] {{ (system if loop.first else '') + m['content'].strip() }} [/INST]"
    "{% else %}{{ m['content'].strip() }}{% endif %}{% endfor %}"
)
# No system message: Gemma.
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{% endfor %}"
)
LAST_ONLY = "{{ messages[-1].content }}"
NO_TOOLS_ANSWER = "{% for m in messages if m.role != 'tool' %}[{{ m.role }}]{{ m.content }}{% endfor %}"
NO_USER = "{% for m in messages if m.role != 'user' %}[{{ m.role }}]{{ m.content }}{% endfor %}"
CUT = "{% for m in messages %}[{{ m.role }}]{{ m.content[:9] }}{% endfor %}"
ONE_PART = "{% for m in messages %}{{ m.content[0].text }}{% endfor %}"
NO_PICTURES = (
    "{% for m in messages %}{% if m.content is string %}{{ raise_exception('parts, please') }}{% endif %}"
    "{{ m.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join }}{% endfor %}"
)
OTHER_PLACEHOLDER = (
    "{% for m in messages %}{% if m.content is string %}{{ raise_exception('parts, please') }}{% endif %}"
    "{% for p in m.content %}{{ '<picture>' if p.type == 'image' else p.text }}{% endfor %}{% endfor %}"
)
HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
PICTURE: list[dict[str, Any]] = [{"role": "user", "content": [IMAGE, {"type": "text", "text": "Hello"}]}]


@pytest.mark.parametrize(
    ("template", "messages", "said"),
    [
        (ALTERNATING, HELLO * 2, "roles must alternate"),
        (ALTERNATING, [{"role": "user", "content": [{"type": "text", "text": "x"}]}] * 2, "roles must alternate"),
        (NO_SYSTEM, [{"role": "system", "content": "x"}, *HELLO], "System role not supported"),
        (LAST_ONLY, [{"role": "system", "content": "e"}, *HELLO], "message 0 says, whose role is 'system'"),
        (NO_TOOLS_ANSWER, [*HELLO, {"role": "tool", "content": "x"}], "message 1 says, whose role is 'tool'"),
        (ONE_PART, [*HELLO, {"role": "user", "content": [{"type": "text", "text": "x"}] * 2}], "message 1 says"),
    ],
)
def test_what_a_template_has_no_place_for_is_the_clients_fault(
    template: str, messages: list[dict[str, Any]], said: str
) -> None:
    with pytest.raises(BadRequestError, match=said):
        info_of(template).apply_chat_template(messages)


@pytest.mark.parametrize(
    ("template", "messages", "said"),
    [
        (NO_USER, HELLO, "leaves out what message 0 says"),
        (CUT, HELLO, "leaves out what message 0 says"),
        (NO_PICTURES, PICTURE, "writes 0 of the placeholder <image> for 1 item"),
        (OTHER_PLACEHOLDER, PICTURE, "writes 0 of the placeholder <image> for 1 item"),
        ("{{ 'no' ", HELLO, "not valid Jinja: line 1"),
        ("", HELLO, "leaves out what message 0 says"),
    ],
)
def test_a_template_that_loses_what_users_say_is_the_integrators_fault(
    template: str, messages: list[dict[str, Any]], said: str
) -> None:
    info = processing_info(make_processor("llava"))
    with pytest.raises(ValueError, match=said) as caught:
        info.apply_chat_template(messages, chat_template=template)

    assert not isinstance(caught.value, BadRequestError)


def test_a_template_that_edits_what_an_assistant_thought_is_left_to_it() -> None:
    """Qwen3 and DeepSeek-R1 drop the reasoning of earlier turns."""
    template = (
        "{% for m in messages %}[{{ m.role }}]"
        "{{ m.content.split('</think>')[-1].strip() if m.role == 'assistant' else m.content }}{% endfor %}"
    )
    messages = [*HELLO, {"role": "assistant", "content": "<think>hm</think> Hi."}, *HELLO]

    assert info_of(template).apply_chat_template(messages) == "[user]Hello[assistant]Hi.[user]Hello"


def test_a_word_that_the_template_writes_anyway_does_not_hide_a_loss() -> None:
    template = "{% for m in messages %}[{{ m.role }}]{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"

    assert info_of(template).apply_chat_template([{"role": "user", "content": "user"}]) == "[user]user"


# --- what reaches a template ------------------------------------------------------------------------------------------

# Tools, calls and answers: Qwen2.5, Hermes.
TOOLS = (
    "{% if tools %}TOOLS{% for tool in tools %}{{ tool | tojson }}{% endfor %}\n{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.tool_calls %}{% for call in m.tool_calls %}"
    "{% set f = call.function %}<call>{{ f.name }} {{ f.arguments | tojson }}</call>{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
    "{% if enable_thinking is defined and not enable_thinking %}<quick>{% endif %}"
)
TEXT_ARGUMENTS = (  # DeepSeek-V3
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for call in m.tool_calls or [] %}"
    "{{ call['function']['name'] + ':' + call['function']['arguments'] }}{% endfor %}{% endfor %}"
)
SCHEMA = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def test_tools_variables_and_the_ends_of_a_prompt_reach_the_template() -> None:
    info = info_of(TOOLS)

    assert info.apply_chat_template(HELLO, tools=[SCHEMA]).startswith('TOOLS{"type": "function"')
    assert info.apply_chat_template(HELLO, tools=[]) == "[user]Hello[assistant]"
    assert info.apply_chat_template(HELLO, chat_template_kwargs={"enable_thinking": False}).endswith("<quick>")
    assert info.apply_chat_template(HELLO, chat_template_kwargs={"unknown": 1}) == "[user]Hello[assistant]"
    assert info.apply_chat_template(HELLO, add_generation_prompt=False) == "[user]Hello"
    begun = [*HELLO, {"role": "assistant", "content": "Hi th"}]
    assert info.apply_chat_template(begun, continue_final_message=True) == "[user]Hello[assistant]Hi th"
    assert info.apply_chat_template(HELLO, chat_template="{{ messages[0].content }}!") == "Hello!"


@pytest.mark.parametrize("template", [CHATML, SELECTATTR, EITHER])
@pytest.mark.parametrize("content", ["Hi th", [{"type": "text", "text": "Hi th"}]])
def test_a_final_message_is_continued_in_either_form(template: str, content: Any) -> None:
    begun = [*HELLO, {"role": "assistant", "content": content}]

    assert info_of(template).apply_chat_template(begun, continue_final_message=True).endswith("Hi th")


@pytest.mark.parametrize("family", ["llava", "qwen2_vl"])
def test_the_ends_of_a_prompt_without_a_template(family: str) -> None:
    info = processing_info(make_processor(family))
    begun = [*HELLO, {"role": "assistant", "content": "Hi th"}]
    asked = info.apply_chat_template(HELLO)

    assert info.apply_chat_template(begun, continue_final_message=True).endswith("Hi th")
    assert asked.startswith(info.apply_chat_template(HELLO, add_generation_prompt=False))
    assert asked != info.apply_chat_template(HELLO, add_generation_prompt=False)
    with pytest.raises(BadRequestError, match="does not end with text"):
        info.apply_chat_template([{"role": "user", "content": [IMAGE]}], continue_final_message=True)


@pytest.mark.parametrize(
    ("template", "expected"),
    [(TOOLS, '<call>look {"at": "the cat"}</call>'), (TEXT_ARGUMENTS, 'look:{"at": "the cat"}')],
)
@pytest.mark.parametrize("arguments", ['{"at": "the cat"}', {"at": "the cat"}], ids=["text", "mapping"])
@pytest.mark.parametrize("form", ["tool_calls", "function_call"])
def test_the_arguments_of_calls_are_written_as_the_template_wants_them(
    template: str, expected: str, arguments: Any, form: str
) -> None:
    function = {"name": "look", "arguments": arguments}
    called = (
        {"tool_calls": [{"id": "1", "function": function}]} if form == "tool_calls" else {"function_call": function}
    )
    chat = parse_chat([*HELLO, {"role": "assistant", "content": None, **called}])

    assert expected in info_of(template).apply_chat_template(chat.messages)


@pytest.mark.parametrize(
    ("template", "options", "said"),
    [
        (CHATML, {"tools": [SCHEMA]}, "takes no tools"),
        (None, {"tools": [SCHEMA]}, "takes no tools"),
        (TOOLS, {"tools": "look"}, "list of JSON schemas"),
        (TOOLS, {"tools": [1]}, "list of JSON schemas"),
        (TOOLS, {"tools": SCHEMA}, "list of JSON schemas"),
        (TOOLS, {"chat_template_kwargs": [1]}, "mapping of template variables"),
        (TOOLS, {"chat_template_kwargs": {1: 1}}, "mapping of template variables"),
        (TOOLS, {"chat_template_kwargs": {"chat_template": "x"}}, "cannot set chat_template"),
        (TOOLS, {"chat_template_kwargs": {"tokenize": True}}, "cannot set tokenize"),
        (TOOLS, {"chat_template_kwargs": {"messages": []}}, "cannot set messages"),
        (TOOLS, {"chat_template_kwargs": {"bos_token": "x"}}, "cannot set bos_token"),
        (TOOLS, {"add_generation_prompt": "yes"}, "must be true or false"),
        (TOOLS, {"continue_final_message": "content"}, "must be true or false"),
        (
            EITHER,
            {"continue_final_message": True, "messages": [{"role": "user", "content": [IMAGE]}]},
            "could not find any",
        ),
    ],
)
def test_options_that_cannot_be_are_the_clients_fault(template: str | None, options: dict[str, Any], said: str) -> None:
    info = processing_info(make_processor("llava", chat_template=template))

    with pytest.raises(BadRequestError, match=said):
        info.apply_chat_template(**{"messages": HELLO, **options})


def test_a_template_may_be_named_and_a_wrong_one_is_the_callers_fault() -> None:
    processor = make_processor("llava")
    processor.chat_template = {
        "default": "D{{ messages[0].content }}",
        "tool_use": "T{{ messages[0].content }}{{ tools }}",
    }
    info = processing_info(processor)

    assert info.apply_chat_template(HELLO) == "DHello"
    assert info.apply_chat_template(HELLO, tools=[SCHEMA]).startswith("THello")
    assert info.apply_chat_template(HELLO, chat_template="tool_use").startswith("THello")
    with pytest.raises(TypeError, match="template is text"):
        info.apply_chat_template(HELLO, chat_template=5)  # type: ignore[arg-type]  # the point
    processor.chat_template = {"rag": "x"}
    with pytest.raises(ValueError, match="name one of the chat templates rag"):
        info.apply_chat_template(HELLO)


def test_a_conversation_is_fitted_in_few_renderings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is rejected, whatever its number of messages: rendering is what a hostile client can make us do."""
    rendered: list[int] = []

    def counting(template: str) -> ProcessingInfo:
        info = info_of(template)
        original = info.hf_processor.apply_chat_template

        def render(*args: Any, **options: Any) -> Any:
            rendered.append(1)
            return original(*args, **options)

        monkeypatch.setattr(info.hf_processor, "apply_chat_template", render)
        return info

    def renderings() -> Iterator[int]:
        for template in (EITHER, SELECTATTR, SYSTEM_STRING):
            rendered.clear()
            counting(template).apply_chat_template(conversation(strings=True))
            yield len(rendered)
        rendered.clear()
        with pytest.raises(BadRequestError):
            counting(LAST_ONLY).apply_chat_template(conversation(strings=True) * 20)
        yield len(rendered)

    counts = list(renderings())
    assert counts[:3] == [2, 3, 3]
    assert counts[3] <= 12
