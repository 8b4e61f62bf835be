"""A conversation as a prompt, by a Jinja chat template.

Templates differ in the form of content that they take: some loop over parts, some join strings, some take either, and
some take another form for each role. In the wrong form most of them write nothing, and a few write a Python list.
Which form a template takes is found out by rendering the conversation with a marker in place of each text: a message
whose marker is missing, or whose list was written as text, is given in the other form. The result depends on the
template and on the conversation's structure, and not on what its texts say. The first form that is tried is that in
which the messages came, which is what transformers uses.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal

from lazymedia.errors import BadRequestError

Message = Mapping[str, Any]

_MARKER: Final = f"lm{secrets.token_hex(8)}"
"""Begins every marker. Lower case, letters and digits: nothing that a template would escape, trim or split."""

_MARKERS: Final = re.compile(_MARKER + r"[mk0-9p]+z")

_REPAIRS: Final = 3
"""Renderings of one form, each with what the last one lost in the other form. Templates need two at most."""

_OWN_ARGUMENTS: Final = frozenset(
    {
        "chat_template",
        "conversation",
        "messages",
        "tools",
        "tokenize",
        "add_generation_prompt",
        "continue_final_message",
        "processor_kwargs",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "load_audio_from_video",
        "sanitize_control_tokens",
    }
)
"""Arguments of transformers' ``apply_chat_template`` that are no variables of a template."""


@dataclass(frozen=True)
class TemplateOptions:
    """How a conversation is rendered.

    Attributes:
        tools: JSON schemas of the tools that the model may call, or functions that transformers makes them of.
        variables: Variables of the template, such as ``enable_thinking``. Those that it does not use are ignored.
        add_generation_prompt: Whether the prompt asks for the next answer.
        continue_final_message: Whether the prompt ends within the last message, so that the model continues it.
    """

    tools: Sequence[Any] | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    continue_final_message: bool = False

    @classmethod
    def check(
        cls,
        tools: object,
        chat_template_kwargs: object,
        *,
        add_generation_prompt: object,
        continue_final_message: object,
    ) -> TemplateOptions:
        """Options as a request gives them.

        Raises:
            BadRequestError: Of another type, or named like an argument that is no template variable. The client's
                fault.
        """
        flags = {"add_generation_prompt": add_generation_prompt, "continue_final_message": continue_final_message}
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                raise BadRequestError(f"{name} must be true or false, not {type(flag).__name__}")
        if tools is not None and (
            not isinstance(tools, Sequence)
            or isinstance(tools, str | bytes)
            or not all(isinstance(tool, Mapping) or callable(tool) for tool in tools)
        ):
            raise BadRequestError("tools must be a list of JSON schemas")
        variables = {} if chat_template_kwargs is None else chat_template_kwargs
        if not isinstance(variables, Mapping) or not all(isinstance(name, str) for name in variables):
            raise BadRequestError("chat_template_kwargs must be a mapping of template variables")
        taken = sorted(_OWN_ARGUMENTS.intersection(variables))
        if taken:
            raise BadRequestError(f"chat_template_kwargs cannot set {', '.join(taken)}")
        continues = bool(continue_final_message)
        return cls(tools or None, variables, bool(add_generation_prompt) and not continues, continues)


def find_template(hf_processor: Any, chosen: object = None, *, has_tools: bool = False) -> str | None:
    """A template: the one that was chosen, the processor's own, or its tokenizer's.

    Of several named ones, ``chosen`` may name one. Otherwise "tool_use" is taken where there are tools, or "default".

    Raises:
        TypeError: ``chosen`` is no text. The caller's fault.
        ValueError: Several templates, and none of these names. The integrator's fault.
    """
    if chosen is not None and not isinstance(chosen, str):
        raise TypeError(f"a chat template is text, not {type(chosen).__name__}")
    template: str | Mapping[str, str] | None = getattr(hf_processor, "chat_template", None) or getattr(
        hf_processor.tokenizer, "chat_template", None
    )
    if not isinstance(template, Mapping):
        return template if chosen is None else chosen
    if chosen is not None:
        return template.get(chosen, chosen)
    for name in ("tool_use", "default") if has_tools else ("default",):
        if name in template:
            return template[name]
    raise ValueError(f"name one of the chat templates {', '.join(template)}; none of them is the default")


def render_template(
    hf_processor: Any,
    template: str,
    messages: Sequence[Message],
    first_token: Callable[[], int | None],
    placeholders: Mapping[str, str],
    items: Mapping[str, str],
    options: TemplateOptions,
) -> str:
    """The conversation as a prompt. Everything that the messages say is in it.

    Args:
        hf_processor: Renders the template.
        template: See `find_template`.
        messages: At least one. ``content`` is text, a list of text parts and media parts, or not there.
        first_token: Which token the tokenizer puts before any text, if one. A beginning-of-sequence token that the
            template writes is left out where that is the same, or the prompt would begin with two.
        placeholders: What stands for an item, by modality.
        items: The same as it stands in a string, with what a family writes around it.
        options: How to render.

    Raises:
        BadRequestError: The template rejects the messages, or has no place for one of them. The client's fault.
        ValueError: No Jinja template, or one that has no place for a user's text or media. The integrator's fault.
        ImportError: A template needs jinja2, which is not installed.
    """
    used, words = _names(template)
    if options.tools and "tools" not in used:
        raise BadRequestError("this model's chat template takes no tools")
    own = set(hf_processor.tokenizer.special_tokens_map)
    taken = sorted(own.intersection(options.variables))
    if taken:
        raise BadRequestError(f"chat_template_kwargs cannot set {', '.join(taken)}")
    variables = {name: value for name, value in options.variables.items() if name in used}

    def apply(shaped: Sequence[Message], **flags: bool) -> str:
        try:
            prompt: str = hf_processor.apply_chat_template(
                [dict(message) for message in shaped],
                chat_template=template,
                tools=options.tools,
                tokenize=False,
                **flags,
                **variables,
            )
        except (ImportError, MemoryError):
            raise
        except Exception as exc:  # a template is a program, and fails as it likes over what it is given
            raise BadRequestError(f"the chat template rejects the messages: {exc}") from exc
        return prompt

    def probe(shaped: Sequence[Message]) -> str:
        return apply(shaped, add_generation_prompt=options.add_generation_prompt)

    known = [_known_role(message, words) for message in messages]
    prompt = apply(
        _Fitting(probe, words, placeholders, items).fit(known),
        add_generation_prompt=options.add_generation_prompt,
        continue_final_message=options.continue_final_message,
    )
    tokenizer = hf_processor.tokenizer
    bos = tokenizer.bos_token
    if bos and prompt.startswith(bos) and first_token() == tokenizer.bos_token_id:
        return prompt[len(bos) :]
    return prompt


def find_placeholder(value: object, hf_processor: Any) -> str | None:
    """The first of the processor's placeholders, of any modality, that a text somewhere in a value contains, or None.

    Args:
        value: As JSON has it, at any depth.
        hf_processor: Names its placeholders ``image_token`` and the like.
    """
    names = [getattr(hf_processor, f"{modality}_token", None) for modality in ("image", "video", "audio")]
    placeholders = [name for name in names if isinstance(name, str) and name]
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            for placeholder in placeholders:
                if placeholder in item:
                    return placeholder
        elif isinstance(item, Mapping):
            pending += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple):
            pending += item
    return None


@lru_cache(maxsize=16)
def _names(template: str) -> tuple[frozenset[str], frozenset[str]]:
    """The variables that a template uses, and the strings that it compares with or writes.

    Raises:
        ValueError: No Jinja template. The integrator's fault.
    """
    import jinja2
    from jinja2 import meta, nodes
    from jinja2.ext import Extension, loopcontrols

    class Generation(Extension):
        """The ``generation`` block by which transformers marks what an assistant says."""

        tags = {"generation"}  # noqa: RUF012  # as the base class declares it

        def parse(self, parser: Any) -> nodes.Node:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    # Parses only; rendering is transformers', in its sandbox.
    environment = jinja2.Environment(extensions=[loopcontrols, Generation])  # noqa: S701
    try:
        tree = environment.parse(template)
    except jinja2.TemplateSyntaxError as exc:
        raise ValueError(f"the chat template is not valid Jinja: line {exc.lineno}: {exc.message}") from exc
    words = frozenset(node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str))
    return frozenset(meta.find_undeclared_variables(tree)), words


def _known_role(message: Message, words: frozenset[str]) -> Message:
    """The message under the role by which the template knows it.

    OpenAI renamed "system" to "developer", and "function" to "tool". Templates that do not mention the one would write
    a word that the model never saw.
    """
    match message.get("role"):
        case "developer" if "developer" not in words:
            return {**message, "role": "system"}
        case "function" if "tool" in words:
            return {**message, "role": "tool"}
        case _:
            return message


_Form = Literal["text", "parts", "absent"]
"""What a message's content is. A message that says nothing has no content, as most templates expect."""

_FORMS: Final[tuple[_Form, ...]] = ("parts", "text")
"""Those that a whole conversation is tried in."""

_OTHER: Final[Mapping[_Form, _Form]] = {"text": "parts", "parts": "text", "absent": "text"}


@dataclass(frozen=True)
class _Loss:
    """What a rendering leaves out.

    Attributes:
        messages: Numbers of the messages whose text is missing, or is written as a Python list.
        counts: Modalities with the wrong number of placeholders: how many are written, and how many items there are.
    """

    messages: frozenset[int]
    counts: Mapping[str, tuple[int, int]]


class _Fitting:
    """Finds the form in which a template writes everything that a conversation says.

    Args:
        apply: Renders messages. Raises BadRequestError.
        words: The strings in the template.
        placeholders: What stands for an item, by modality.
        items: The same as it stands in a string.
    """

    def __init__(
        self,
        apply: Callable[[Sequence[Message]], str],
        words: frozenset[str],
        placeholders: Mapping[str, str],
        items: Mapping[str, str],
    ) -> None:
        self._apply = apply
        self._words = words
        self._placeholders = placeholders
        self._items = items

    def fit(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages in a form that the template takes.

        Raises:
            BadRequestError: The template rejects them in every form, or has no place for one of them.
            ValueError: It has no place for what a user says.
        """
        rejections: list[BadRequestError] = []
        losses: list[_Loss] = []
        for shaped, loss in self._attempts(messages, rejections):
            if loss is None:
                return shaped
            losses.append(loss)
        least = min(losses, key=lambda loss: (len(loss.messages), len(loss.counts)), default=None)
        if least is not None and self._is_unusable(messages):
            raise ValueError(self._description(messages, least))
        # What a template says on purpose is more use than how it fails over a form that it does not take.
        said = [error for error in rejections if type(error.__cause__).__name__ == "TemplateError"]
        if said or least is None:
            raise (said or rejections)[0]
        raise BadRequestError(self._description(messages, least))

    def _attempts(
        self, given: Sequence[Message], rejections: list[BadRequestError]
    ) -> Iterator[tuple[list[Message], _Loss | None]]:
        """Forms of the messages and what is lost of each: as given, all as parts, and all as text. After each, the
        messages that are lost in it are given in the other form.
        """
        for messages in self._spellings(given):
            marked = [_marked(message, number) for number, message in enumerate(messages)]
            tried: set[tuple[_Form, ...]] = set()
            for start in (None, *_FORMS):
                forms = tuple(start or _form(message) for message in messages)
                for _ in range(_REPAIRS):
                    if forms in tried:
                        break
                    tried.add(forms)
                    try:
                        loss = self._loss(marked, forms)
                    except BadRequestError as exc:
                        rejections.append(exc)
                        break
                    yield self._shaped(messages, forms), loss
                    if loss is None:
                        return
                    affected = loss.messages or {
                        number for number, message in enumerate(messages) if _modalities(message) & loss.counts.keys()
                    }
                    forms = tuple(_OTHER[form] if number in affected else form for number, form in enumerate(forms))

    def _spellings(self, messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
        """The messages, and how else their media parts and tool calls are written, for templates that need it."""
        yield messages
        if "image_url" in self._words and any(map(_modalities, messages)):
            yield [_with_parts(message, _as_url_part) for message in messages]
        if any("tool_calls" in message for message in messages):
            yield [_with_text_arguments(message) for message in messages]

    def _shaped(self, messages: Sequence[Message], forms: Sequence[_Form]) -> list[Message]:
        return [self._in_form(message, form) for message, form in zip(messages, forms)]

    def _in_form(self, message: Message, form: _Form) -> Message:
        if form == _form(message) != "absent":
            return message
        if form == "absent":
            return {name: value for name, value in message.items() if name != "content"}
        if form == "text":
            return {**message, "content": self._joined(_parts(message))}
        return {**message, "content": [{"type": "text", "text": message.get("content") or ""}]}

    def _joined(self, parts: Sequence[Mapping[str, Any]]) -> str:
        """Parts as one string, in their order. Texts that follow each other are lines of their own, as in vLLM."""
        pieces: list[str] = []
        follows_text = False
        for part in parts:
            is_text = part["type"] == "text"
            pieces += ["\n"] * (is_text and follows_text)
            pieces.append(part["text"] if is_text else self._items.get(_modality(part), ""))
            follows_text = is_text
        return "".join(pieces)

    def _loss(self, marked: Sequence[Message], forms: Sequence[_Form]) -> _Loss | None:
        """What the template leaves out of these messages; None where it writes everything.

        Raises:
            BadRequestError: The template rejects them.
        """
        shaped = [_with_parts(message, _add_key(number)) for number, message in enumerate(self._shaped(marked, forms))]
        written = self._apply(shaped)
        found = set(_MARKERS.findall(written.lower()))
        lost = frozenset(
            number
            for number, message in enumerate(marked)
            if _key(number) in found or not found.issuperset(_markers(message))
        )
        items = Counter(_modality(part) for message in marked for part in _parts(message))
        counts = {
            modality: (written.count(placeholder), items[modality])
            for modality, placeholder in self._placeholders.items()
            if written.count(placeholder) != items[modality]
        }
        return _Loss(lost, counts) if lost or counts else None

    def _is_unusable(self, messages: Sequence[Message]) -> bool:
        """Whether the template loses a user's text and media of these modalities even where there is nothing else."""
        kinds = sorted({kind for message in messages for kind in _modalities(message)})
        plain = [{"role": "user", "content": [*({"type": kind} for kind in kinds), {"type": "text", "text": "?"}]}]
        losses = [loss for _, loss in self._attempts(plain, [])]
        return bool(losses) and None not in losses

    def _description(self, messages: Sequence[Message], loss: _Loss) -> str:
        if loss.messages:
            number = min(loss.messages)
            role = str(messages[number]["role"])[:32]
            return f"the chat template leaves out what message {number} says, whose role is {role!r}"
        modality, (written, items) = next(iter(loss.counts.items()))
        placeholder = self._placeholders[modality]
        return f"the chat template writes {written} of the placeholder {placeholder} for {items} item(s) of {modality}"


def _form(message: Message) -> _Form:
    content = message.get("content")
    return "text" if isinstance(content, str) else "parts" if content else "absent"


def _parts(message: Message) -> Sequence[Mapping[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list | tuple) else ()


def _modality(part: Mapping[str, Any]) -> str:
    return str(part["type"]).removesuffix("_url")


def _modalities(message: Message) -> set[str]:
    return {_modality(part) for part in _parts(message)} - {"text"}


def _with_parts(message: Message, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Message:
    parts = _parts(message)
    return {**message, "content": [change(part) for part in parts]} if parts else message


def _as_url_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    return part if part["type"] == "text" else {**part, "type": f"{part['type']}_url"}


def _with_text_arguments(message: Message) -> Message:
    """The message with the arguments of its tool calls as JSON text, as OpenAI writes them."""
    calls = [dict(call) for call in message.get("tool_calls", ())]
    for call in calls:
        function = call.get("function", call)
        if isinstance(function.get("arguments"), Mapping):
            arguments = json.dumps(function["arguments"], ensure_ascii=False)
            call.update(
                {"function": {**function, "arguments": arguments}} if "function" in call else {"arguments": arguments}
            )
    return {**message, "tool_calls": calls} if calls else message


def _marked(message: Message, number: int) -> Message:
    """The message with a marker in place of each text that is not blank."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": _marker(number, 0)} if content.strip() else message
    parts = [
        {**part, "text": _marker(number, place)} if part["type"] == "text" and part["text"].strip() else part
        for place, part in enumerate(_parts(message))
    ]
    return {**message, "content": parts} if parts else message


def _marker(number: int, place: int) -> str:
    return f"{_MARKER}m{number}p{place}z"


def _markers(message: Message) -> list[str]:
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [part.get("text", "") for part in _parts(message)]
    return [text for text in texts if text.startswith(_MARKER)]


def _key(number: int) -> str:
    return f"{_MARKER}k{number}z"


def _add_key(number: int) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Adds a key to a part that no template asks for, so that it is written only where a whole part is."""
    return lambda part: {**part, _key(number): ""}


__all__ = ["TemplateOptions", "find_placeholder", "find_template", "render_template"]
