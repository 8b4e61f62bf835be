"""Splicing cached tokens into a prompt gives what tokenising the whole expanded text gives, or is not done."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import transformers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from lazymedia.errors import BadRequestError
from lazymedia.processing.prompt import Placeholder, PlaceholderRange, PromptLayout, RenderedPrompt
from lazymedia.testing.processors import make_processor, make_tokenizer

SPECIALS = ["<pad>", "<s>", "</s>", "<unk>", "<image>", "<row>", "<end>"]
LETTERS = sorted({*"abcdeimgrowxn<>/_ .▁é\n", "\n\n"})


def byte_level(**kwargs: Any) -> Any:
    return make_tokenizer({"image_token": "<image>"}, ["<row>", "<end>"], **kwargs)


def pieces(*, prepend: str | None, added: list[AddedToken] | None = None) -> Any:
    """A tokenizer in SentencePiece's manner: spaces are ``▁``, and a text begins with one of them."""
    specials = [AddedToken(token, special=True, normalized=False) for token in SPECIALS]
    base = Tokenizer(
        models.BPE(
            vocab={token: index for index, token in enumerate([*SPECIALS, *LETTERS, "▁a", "im"])},
            merges=[("\n", "\n"), ("▁", "a"), ("i", "m")],
            unk_token="<unk>",
        )
    )
    base.add_special_tokens(specials)
    base.add_tokens(added or [])
    if prepend == "normalizer":
        base.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    elif prepend is not None:
        base.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend)
    base.decoder = decoders.Metaspace()
    base.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=base, unk_token="<unk>", pad_token="<pad>", extra_special_tokens={"image_token": "<image>"}
    )


def flagged(**flags: bool) -> Any:
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken("<image>", special=True, **{"normalized": False, **flags})], special_tokens=True)
    return tokenizer


class LowerCasing(transformers.PreTrainedTokenizerFast):  # type: ignore[misc]  # transformers is not typed
    def __call__(self, text: Any, **kwargs: Any) -> Any:
        return super().__call__([one.lower() for one in text] if isinstance(text, list) else text.lower(), **kwargs)


def lower_casing() -> Any:
    return LowerCasing(
        tokenizer_object=byte_level().backend_tokenizer,
        pad_token="<pad>",
        extra_special_tokens={"image_token": "<image>"},
    )


EXACT: dict[str, Callable[[], Any]] = {
    "byte level": byte_level,
    "byte level with a first token": lambda: byte_level(writes_bos=True),
    "metaspace, first": lambda: pieces(prepend="first"),
    "metaspace, always": lambda: pieces(prepend="always"),
    "prepending normalizer": lambda: pieces(prepend="normalizer"),
    "other added tokens": lambda: pieces(
        prepend="first", added=[AddedToken("x ", normalized=False), AddedToken("n/", normalized=True, lstrip=True)]
    ),
}
DOUBTFUL: dict[str, Callable[[], Any]] = {
    "strips to the left": lambda: flagged(lstrip=True),
    "strips to the right": lambda: flagged(rstrip=True),
    "needs word boundaries": lambda: flagged(single_word=True),
    "found in normalised text": lambda: flagged(normalized=True),
    "a token reaches across the left edge": lambda: pieces(prepend=None, added=[AddedToken("a<ima", normalized=False)]),
    "a token ends as the placeholder begins": lambda: pieces(prepend=None, added=[AddedToken("x<", normalized=False)]),
    "a token holds two placeholders": lambda: pieces(
        prepend=None, added=[AddedToken("<image><image>", normalized=False)]
    ),
    "a step in Python": lower_casing,
}


@cache
def layout_of(name: str) -> PromptLayout:
    tokenizer = {**EXACT, **DOUBTFUL}[name]()
    processor = transformers.LlavaProcessor(transformers.CLIPImageProcessor(), tokenizer, patch_size=14)
    token = tokenizer.convert_tokens_to_ids("<image>")
    placeholder = Placeholder("<image>", token, frozenset({token}), "images_replacements")
    return PromptLayout(processor, {"image": placeholder})


def expansions(*, whole: bool) -> st.SearchStrategy[str]:
    """What a placeholder may become: between added tokens, or (not ``whole``) with loose ends."""
    rows = st.lists(st.sampled_from(["<image>", "<row>", "\n", "\n\n", " ", "a", "<end>"]), max_size=5).map("".join)
    edges = st.sampled_from(["<image>", "<row>", "<end>"])
    enclosed = st.builds("{}{}{}".format, edges, rows, edges)
    return enclosed if whole else st.one_of(enclosed, st.builds("{}{}".format, rows, edges), rows.filter(bool))


TEXT = st.lists(
    st.sampled_from([*"ab imge<>/\n\t ▁éx\u0130\U0001f600\u0000\ufeff", "<ima", "n/", " a", "\n\n"]), max_size=8
).map("".join)


def prompts(*, whole: bool) -> st.SearchStrategy[tuple[str, list[str]]]:
    """A text with placeholders at any place, beside each other too, and what each becomes."""
    return st.lists(st.tuples(expansions(whole=whole), TEXT), max_size=4).flatmap(
        lambda items: TEXT.map(
            lambda first: (first + "".join(f"<image>{text}" for _, text in items), [r for r, _ in items])
        )
    )


def is_consistent(prompt: str, replacements: list[str]) -> bool:
    """Whether chance has not put together a placeholder more."""
    return prompt.count("<image>") == len(replacements)


def assert_layouts_agree(layout: PromptLayout, prompt: str, texts: list[str], *, spliced: bool | None) -> None:
    replacements = {"image": [layout.replacement("image", text) for text in texts]}
    quick = layout.splice(prompt, replacements, {})
    thorough = layout.retokenise(prompt, replacements, {})

    if spliced is not None:
        assert (quick is not None) is spliced
    assert quick is None or quick == thorough
    assert layout.lay_out(prompt, replacements, {}) == thorough
    (text,), _ = layout.hf_processor.get_text_with_replacements([prompt], images_replacements=texts)
    assert thorough.token_ids == layout.hf_processor.tokenizer(text)["input_ids"]


@pytest.mark.parametrize("name", EXACT)
@given(case=prompts(whole=True))
@example(case=("<image>", ["<image>"]))
@example(case=("<image><image>", ["<image><row>", "<end><image>"]))
@example(case=(" <image> \n\n", ["<row>\n\n<image>"]))
@example(case=("", []))
@settings(max_examples=60, deadline=None)
def test_splicing_equals_tokenising_the_whole(name: str, case: tuple[str, list[str]]) -> None:
    if is_consistent(*case):
        assert_layouts_agree(layout_of(name), *case, spliced=True)


@pytest.mark.parametrize("name", EXACT)
@given(case=prompts(whole=False))
@example(case=("a<image>b", ["\n\n<image>\n"]))
@settings(max_examples=40, deadline=None)
def test_a_replacement_with_loose_ends_is_tokenised_with_its_neighbours(name: str, case: tuple[str, list[str]]) -> None:
    layout = layout_of(name)
    if is_consistent(*case) and not any(text.strip("\n ▁") == "" for text in case[1]):
        loose = any(layout.replacement("image", text).token_ids is None for text in case[1])

        assert_layouts_agree(layout, *case, spliced=not loose)


@pytest.mark.parametrize("name", DOUBTFUL)
@given(case=prompts(whole=True))
@example(case=("a <image> b", ["<image><row>"]))
@example(case=("a<image><image>", ["<image>", "<row><image>"]))
@settings(max_examples=30, deadline=None)
def test_where_splicing_might_differ_it_is_not_done(name: str, case: tuple[str, list[str]]) -> None:
    layout = layout_of(name)
    replacements = [layout.replacement("image", text) for text in case[1]]
    if is_consistent(*case):
        assert all(replacement.token_ids is None for replacement in replacements)
        assert layout.splice(case[0], {"image": replacements}, {}) is None or not replacements


@pytest.mark.parametrize("family", ["llava", "qwen3_vl", "idefics3"])
@given(case=prompts(whole=True))
@settings(max_examples=30, deadline=None)
def test_published_families_are_spliced(family: str, case: tuple[str, list[str]]) -> None:
    processor = _processor(family)
    token = processor.image_token
    prompt, texts = case[0].replace("<image>", token), [text.replace("<image>", token) for text in case[1]]
    texts = [text if text.startswith(token) and text.endswith(token) else f"{token}{text}{token}" for text in texts]
    layout = PromptLayout(
        processor,
        {"image": Placeholder(token, processor.image_token_id, frozenset({1}), "images_replacements")},
    )
    if prompt.count(token) == len(texts):
        assert_layouts_agree(layout, prompt, texts, spliced=True)


@cache
def _processor(family: str) -> Any:
    return make_processor(family)


def lay_out(prompt: str, texts: list[str], name: str = "byte level", **text_kwargs: Any) -> RenderedPrompt:
    layout = layout_of(name)
    return layout.lay_out(prompt, {"image": [layout.replacement("image", text) for text in texts]}, text_kwargs)


@pytest.mark.parametrize("name", ["byte level", "strips to the left"])
@pytest.mark.parametrize(
    ("prompt", "items"),
    [("no placeholder", 1), ("<image>", 0), ("<image><image> and <image>", 2), ("<image>\U000f0000<image>", 1)],
)
def test_placeholders_and_items_must_be_as_many(name: str, prompt: str, items: int) -> None:
    found = prompt.count("<image>")
    with pytest.raises(BadRequestError) as caught:
        lay_out(prompt, ["<image>"] * items, name)

    assert str(caught.value) == f"the prompt has {found} of the placeholder <image> for {items} item(s) of image"


def test_a_placeholder_that_is_marked_as_the_users_text_is_none() -> None:
    """Hugging Face would leave it unexpanded, and the model would find fewer tokens than features."""
    with pytest.raises(BadRequestError, match="has 1 of the placeholder <image> for 2"):
        lay_out("<image> \U000f0000<image>", ["<image>", "<image>"])


def test_half_a_surrogate_pair_is_the_clients_fault() -> None:
    """JSON can hold one, and the tokenizer would say that a text is no text."""
    with pytest.raises(BadRequestError, match="half a surrogate pair"):
        lay_out("a\ud800b", [])


def test_truncation_that_cuts_items_off_is_refused() -> None:
    with pytest.raises(BadRequestError, match="longer than the tokenizer is set to allow"):
        lay_out("abc <image>", ["<image>" * 9], truncation=True, max_length=6)


def test_truncation_that_cuts_text_off_is_done_as_the_tokenizer_does_it() -> None:
    rendered = lay_out("<image> abcdef", ["<image>" * 3], truncation=True, max_length=6)

    assert len(rendered.token_ids) == 6
    assert [(found.offset, found.length) for found in rendered.placeholders["image"]] == [(0, 3)]


def test_padding_is_done_as_the_tokenizer_does_it() -> None:
    rendered = lay_out("<image>a", ["<image>" * 3], padding="max_length", max_length=7, padding_side="left")

    assert rendered.outputs["attention_mask"] == [0, 0, 0, 1, 1, 1, 1]
    assert rendered.placeholders["image"][0].offset == 3


def test_outputs_that_cannot_be_spliced_come_from_the_whole_text() -> None:
    name = "byte level with a first token"
    layout = layout_of(name)
    items = {"image": [layout.replacement("image", "<image>" * 2)]}
    rendered = lay_out("<image>", ["<image>" * 2], name, return_special_tokens_mask=True)

    assert layout.splice("<image>", items, {"return_special_tokens_mask": True}) is None
    assert rendered.outputs["special_tokens_mask"] == [1, 0, 0]


def test_a_slow_tokenizer_is_refused_with_the_reason() -> None:
    """It does not tell which characters a token stands for."""
    layout = layout_of("byte level")

    class Slow:
        is_fast = False

    class Processor:
        tokenizer = Slow()
        get_text_with_replacements = layout.hf_processor.get_text_with_replacements

    fields = vars(layout) | {"hf_processor": Processor()}
    slow = PromptLayout.__new__(PromptLayout)
    vars(slow).update(fields)
    with pytest.raises(NotImplementedError, match="fast tokenizer"):
        slow.retokenise("<image>", {"image": [layout.replacement("image", "a")]}, {})


def test_equal_replacements_share_their_tokens() -> None:
    layout = layout_of("byte level")

    assert layout.replacement("image", "<image>" * 5) is layout.replacement("image", "<image>" * 5)


def test_remembered_replacements_do_not_pile_up() -> None:
    layout = layout_of("byte level with a first token")
    for length in range(200):
        layout.replacement("image", "<image>" * (length + 1))

    assert len(layout._known) <= 64


def test_ranges_are_equal_by_value_and_read_only() -> None:
    one, same, other = (PlaceholderRange(1, 2, np.array(mask)) for mask in ([True, False], [True, False], [True, True]))

    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != "something else"
    with pytest.raises(ValueError, match="read-only"):
        lay_out("<image>", ["<image>"]).placeholders["image"][0].is_embed[0] = False


def test_ranges_mark_which_tokens_take_embeddings() -> None:
    (found,) = lay_out("ab<image>c", ["<row><image><image>\n<end>"]).placeholders["image"]

    assert found == PlaceholderRange(2, 5, np.array([False, True, True, False, False]))
