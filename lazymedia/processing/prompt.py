"""From a prompt with one placeholder for each item to the token ids that a model takes.

Two ways lead to the same tokens:

* *splice*: tokenise the prompt as it is and put each item's cached tokens where its placeholder's token stands. It
  costs next to nothing, and is taken where `tokens.Seams` shows it to be exact.
* *retokenise*: let the processor expand the text and tokenise that, then find each item's tokens by their characters.
"""

from __future__ import annotations

import threading
import unicodedata
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lazymedia.errors import BadRequestError
from lazymedia.processing.fields import immutable
from lazymedia.processing.hooks import HOOKS
from lazymedia.processing.items import Replacement
from lazymedia.processing.tokens import Seams, changes_no_token, compact

_REMEMBERED: Final = 64
"""Replacements whose tokens are kept: most pictures become one of few texts, and tokenising takes 0.5 ms in LLaVA."""
_SPLICED: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})
"""Tokenizer outputs whose value for a whole text is that of its tokens, one by one."""


_NO_MEDIA: Final[Mapping[str, NDArray[Any]]] = {
    "image": np.zeros((1, 1, 3), np.uint8),
    "video": np.zeros((1, 1, 1, 3), np.uint8),
    "audio": np.zeros(1, np.float32),
}
"""Stands for an item where only the number of items matters."""

_LOST: Final = "some of the items' tokens get lost: with them, the prompt is longer than the tokenizer is set to allow"


@dataclass(frozen=True, slots=True, eq=False)
class PlaceholderRange:
    """Where one item's tokens stand in a prompt's token ids.

    Attributes:
        offset: Position of the first.
        length: How many there are.
        is_embed: For each, whether the model puts one of the item's embeddings there (the others are text, such as row
            and column marks); read-only, bool, shape (length,). Always given, so that None need not be treated apart.
    """

    offset: int
    length: int
    is_embed: NDArray[np.bool_]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PlaceholderRange)
            and (self.offset, self.length) == (other.offset, other.length)
            and np.array_equal(self.is_embed, other.is_embed)
        )

    def __hash__(self) -> int:
        return hash((self.offset, self.length))

    def __repr__(self) -> str:
        return f"PlaceholderRange(offset={self.offset}, length={self.length}, {int(self.is_embed.sum())} embedded)"


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A prompt, laid out.

    Attributes:
        token_ids: Token ids of the whole text.
        placeholders: For each modality that has a placeholder, where each item's tokens stand, in the order of the
            items.
        outputs: The tokenizer's other outputs, such as ``attention_mask``, one value for each token.
        mm_token_type_ids: Whether the processor also returns the modality of each token.
    """

    token_ids: list[int] = field(repr=False)
    placeholders: dict[str, list[PlaceholderRange]]
    outputs: Mapping[str, list[int]] = field(repr=False)
    mm_token_type_ids: bool = False


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The token by which a prompt says "here is one item of this modality".

    Attributes:
        text: As it stands in a prompt, such as ``"<image>"``.
        token_id: Its token; None where the tokenizer has none for it.
        embed_ids: Tokens that may be replaced by embeddings in the model. Which is, what it becomes shows; see `_mask`.
        argument: How the processor's ``get_text_with_replacements`` names this modality's replacements.
    """

    text: str
    token_id: int | None
    embed_ids: frozenset[int]
    argument: str


def placeholders_of(
    hf_processor: Any, modalities: Sequence[str], embed_tokens: Mapping[str, Sequence[str]]
) -> dict[str, Placeholder]:
    """What stands for an item of each modality, as a processor says; without those for which it says nothing.

    Args:
        hf_processor: The processor.
        modalities: Which.
        embed_tokens: See `ProcessingInfo.embed_tokens`.
    """
    found: dict[str, Placeholder] = {}
    for modality in modalities:
        hooks = HOOKS[modality]
        text = getattr(hf_processor, hooks.token, None)
        if text is None:
            continue
        token_id = getattr(hf_processor, f"{hooks.token}_id", None)
        if token_id is None:
            token_id = hf_processor.tokenizer.get_added_vocab().get(text)
        if modality in embed_tokens:
            embeds = frozenset(map(hf_processor.tokenizer.convert_tokens_to_ids, embed_tokens[modality]))
        else:
            # Marks around an item may be among them, and in some processors the placeholder is another token.
            ids = {token_id, *getattr(hf_processor, f"{hooks.token}_ids", ())}
            if modality == "video":  # some become pictures in the prompt
                ids |= {getattr(hf_processor, "image_token_id", None)}
            embeds = frozenset(ids - {None})
        found[modality] = Placeholder(text, token_id, embeds, hooks.replacements)
    return found


@dataclass
class PromptLayout:
    """Lays out prompts for one processor.

    Args:
        hf_processor: Its ``get_text_with_replacements`` and ``tokenizer`` are used.
        placeholders: By modality.
    """

    hf_processor: Any
    placeholders: Mapping[str, Placeholder]
    _seams: Seams = field(init=False)
    _rewrites: bool = field(init=False)
    _added: frozenset[int] = field(init=False)
    _known: dict[tuple[str, str], Replacement] = field(init=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    """A fast tokenizer holds its padding and truncation as state, and cannot be changed while another thread uses
    it."""

    def __post_init__(self) -> None:
        self._seams = Seams(self.hf_processor.tokenizer)
        self._added = frozenset(self.hf_processor.tokenizer.get_added_vocab().values())
        self._rewrites = _rewrites(type(self.hf_processor))

    def replacement(self, modality: str, text: str) -> Replacement:
        """What an item's placeholder becomes, with its tokens where they are the same in every prompt."""
        placeholder = self.placeholders.get(modality)
        if placeholder is None or not self._seams.is_clean(placeholder.token_id):
            return Replacement(text)
        known = self._known.get((modality, text))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[modality, text] = self._tokenized(text, placeholder)
        return known

    def replacement_in(self, modality: str, token_ids: Sequence[int]) -> Replacement:
        """What an item's placeholder became in a prompt that was nothing else, which the processor tokenised.

        Raises:
            NotImplementedError: The tokens around it differ, or may depend on what stands beside them.
        """
        placeholder = self.placeholders.get(modality)
        if placeholder is None:
            return Replacement("")
        bare = self.tokenize(placeholder.text, {})["input_ids"]
        if bare.count(placeholder.token_id) != 1 or not self._seams.is_clean(placeholder.token_id):
            raise NotImplementedError(f"{placeholder.text} is no token of its own")
        before = bare.index(placeholder.token_id)
        after = len(bare) - before - 1
        end = len(token_ids) - after
        if list(token_ids[:before]) != bare[:before] or list(token_ids[end:]) != bare[before + 1 :]:
            raise NotImplementedError(f"the tokens around {placeholder.text} differ")
        inside = compact(list(token_ids[before:end]))
        if not inside or not self._seams.is_clean(inside[0]) or not self._seams.is_clean(inside[-1]):
            raise NotImplementedError(f"the tokens of {placeholder.text} may depend on what stands beside them")
        return Replacement("", inside, _mask(inside, placeholder.embed_ids, self._added))

    def found_in(self, columns: Mapping[str, Any], counts: Mapping[str, int]) -> RenderedPrompt:
        """A prompt that the processor tokenised with all of its items: each run of a modality's tokens is an item.

        Where the runs are more or fewer than the items, where these stand is not known, and no places are given.
        """
        values = {name: array[0].tolist() for name, array in columns.items()}
        token_ids: list[int] = values.pop("input_ids", [])
        found: dict[str, list[PlaceholderRange]] = {}
        for modality, count in counts.items():
            placeholder = self.placeholders.get(modality)
            if placeholder is None:
                continue
            marked = [token in placeholder.embed_ids for token in token_ids]
            starts = [at for at, here in enumerate(marked) if here and (at == 0 or not marked[at - 1])]
            lengths = [len(list(takewhile(bool, marked[start:]))) for start in starts]
            ranges = [
                PlaceholderRange(start, length, immutable(np.ones(length, np.bool_)))
                for start, length in zip(starts, lengths)
            ]
            found[modality] = ranges if len(ranges) == count else []
        return RenderedPrompt(token_ids, found, values)

    def _tokenized(self, text: str, placeholder: Placeholder) -> Replacement:
        found = self.tokenize(text, {"add_special_tokens": False, "return_attention_mask": False, "verbose": False})
        token_ids = compact(found["input_ids"])
        if not self._seams.encloses(text, token_ids):
            return Replacement(text)
        return Replacement(text, token_ids, _mask(token_ids, placeholder.embed_ids, self._added))

    def lay_out(
        self,
        prompt: str,
        replacements: Mapping[str, Sequence[Replacement]],
        text_kwargs: Mapping[str, Any],
        *,
        mm_token_type_ids: bool = False,
    ) -> RenderedPrompt:
        """The prompt with every placeholder replaced, the quick way where that is exact.

        Raises:
            BadRequestError: The numbers of placeholders and items differ, or the tokenizer cuts an item's tokens off.
                The client's fault.
        """
        try:
            prompt.encode()
        except UnicodeEncodeError as exc:
            raise BadRequestError("the prompt is no Unicode text: it holds half a surrogate pair") from exc
        self.check_counts(prompt, {modality: len(items) for modality, items in replacements.items()})
        counts = {modality: len(items) for modality, items in replacements.items()}
        prompt = self._rewritten(prompt, counts)
        self.check_counts(prompt, counts)
        # What has no placeholder leaves no trace in the text.
        placed = {modality: items for modality, items in replacements.items() if modality in self.placeholders}
        rendered = self.splice(prompt, placed, text_kwargs) or self.retokenise(prompt, placed, text_kwargs)
        return replace(rendered, mm_token_type_ids=mm_token_type_ids) if mm_token_type_ids else rendered

    def splice(
        self, prompt: str, replacements: Mapping[str, Sequence[Replacement]], text_kwargs: Mapping[str, Any]
    ) -> RenderedPrompt | None:
        """Put each item's tokens where its placeholder's token stands. None where the result might differ."""
        if not changes_no_token(text_kwargs) or not self._can_splice(prompt, replacements):
            return None
        encoded = self.tokenize([prompt], text_kwargs)
        if not set(encoded) <= _SPLICED:
            return None
        columns: dict[str, list[int]] = {name: values[0] for name, values in encoded.items()}
        modality_of = {self.placeholders[modality].token_id: modality for modality in replacements}
        places = [
            (place, modality_of[token]) for place, token in enumerate(columns["input_ids"]) if token in modality_of
        ]
        queues = {modality: iter(items) for modality, items in replacements.items()}
        if any(sum(m == modality for _, m in places) != len(items) for modality, items in replacements.items()):
            return None

        spliced: dict[str, list[int]] = {name: [] for name in columns}
        token_ids = spliced["input_ids"]
        found: dict[str, list[PlaceholderRange]] = {modality: [] for modality in replacements}
        start = 0
        for place, modality in places:
            replacement = next(queues[modality])
            assert replacement.token_ids is not None  # see _can_splice
            assert replacement.is_embed is not None
            length = len(replacement.token_ids)
            for name, values in columns.items():
                spliced[name] += values[start:place]
                if name != "input_ids":
                    spliced[name] += [values[place]] * length
            found[modality].append(PlaceholderRange(len(token_ids), length, replacement.is_embed))
            token_ids += replacement.token_ids
            start = place + 1
        for name, values in columns.items():
            spliced[name] += values[start:]
        del spliced["input_ids"]
        return RenderedPrompt(token_ids, found, spliced)

    def retokenise(
        self, prompt: str, replacements: Mapping[str, Sequence[Replacement]], text_kwargs: Mapping[str, Any]
    ) -> RenderedPrompt:
        """Expand the text as the processor does, tokenise it, and find each item's tokens by their characters.

        Raises:
            BadRequestError: As `lay_out`.
            NotImplementedError: The tokenizer does not report which characters a token stands for.
        """
        if not self.hf_processor.tokenizer.is_fast:
            raise NotImplementedError("laying out a prompt needs a fast tokenizer, which knows where each token stands")
        texts = {
            self.placeholders[modality].argument: [item.text for item in items]
            for modality, items in replacements.items()
        }
        (expanded,), offsets = self.hf_processor.get_text_with_replacements([prompt], **texts)
        spans = offsets[0] if offsets else []
        for modality, items in replacements.items():
            self._check_count(modality, sum(span["type"] == modality for span in spans), len(items))
        encoded = self.tokenize([expanded], text_kwargs)
        self._check_whole(expanded, encoded, list(replacements))
        columns = {name: list(values[0]) for name, values in encoded.items()}
        token_ids = columns.pop("input_ids")
        found: dict[str, list[PlaceholderRange]] = {modality: [] for modality in replacements}
        for span in spans:
            first, last = _tokens_of(encoded, *span["new_span"])
            mask = _mask(token_ids[first : last + 1], self.placeholders[span["type"]].embed_ids, self._added)
            found[span["type"]].append(PlaceholderRange(first, last - first + 1, mask))
        return RenderedPrompt(token_ids, found, columns)

    def _rewritten(self, prompt: str, counts: Mapping[str, int]) -> str:
        """The prompt as the processor changes it before anything else, such as by a beginning-of-sequence token behind
        the pictures. That depends on how many items there are, and not on what is in them.
        """
        if not self._rewrites:
            return prompt
        media: dict[str, Any] = {
            HOOKS[modality].argument: [_NO_MEDIA[modality]] * count for modality, count in counts.items() if count
        }
        laid_out = self.hf_processor.prepare_inputs_layout(text=[prompt], **media)
        (rewritten,) = laid_out[1]
        return str(rewritten)

    def tokenize(self, text: str | list[str], text_kwargs: Mapping[str, Any]) -> Any:
        """The tokenizer's output, as from any thread."""
        with self._lock:
            return self.hf_processor.tokenizer(text, **text_kwargs)

    def first_token(self) -> int | None:
        """The token that the tokenizer puts before any text; None where it puts none."""
        token_ids: list[int] = self.tokenize("", {})["input_ids"]
        return token_ids[0] if token_ids else None

    def _check_whole(self, expanded: str, encoded: Any, modalities: list[str]) -> None:
        """Refuse a prompt that lost some of an item's tokens, to truncation as a rule: a model fails on the rest."""
        check = getattr(self.hf_processor, "_check_special_mm_tokens", None)
        try:
            if check is not None and modalities:
                check([expanded], encoded, modalities)
        except ValueError as exc:
            raise BadRequestError(_LOST) from exc

    def _can_splice(self, prompt: str, replacements: Mapping[str, Sequence[Replacement]]) -> bool:
        for modality, items in replacements.items():
            if any(item.token_ids is None for item in items):
                return False
            # Hugging Face leaves a placeholder alone that a private character before it marks as the user's own text.
            if any(
                unicodedata.category(before) == "Co" for before in _before(prompt, self.placeholders[modality].text)
            ):
                return False
        return True

    def check_counts(self, prompt: str, counts: Mapping[str, int]) -> None:
        """Hold the numbers of placeholders against those of the items.

        Raises:
            BadRequestError: They differ.
        """
        for modality, placeholder in self.placeholders.items():
            self._check_count(modality, prompt.count(placeholder.text), counts.get(modality, 0))

    def _check_count(self, modality: str, placeholders: int, items: int) -> None:
        if placeholders != items:
            raise BadRequestError(
                f"the prompt has {placeholders} of the placeholder {self.placeholders[modality].text} for {items} "
                f"item(s) of {modality}"
            )


def _rewrites(kind: type) -> bool:
    """Whether a class of processors has a step of its own that may change the prompt."""
    owner = next(ancestor for ancestor in kind.__mro__ if "prepare_inputs_layout" in vars(ancestor))
    return owner.__module__ != "transformers.processing_utils"


def _before(prompt: str, placeholder: str) -> list[str]:
    """The last character of each part that a placeholder follows."""
    return [part[-1] for part in prompt.split(placeholder)[:-1] if part]


def _mask(token_ids: Sequence[int], embed_ids: frozenset[int], added: Container[int]) -> NDArray[np.bool_]:
    """Where the model puts embeddings: at the special token that an item became most of.

    Processors do not say which token that is. In some the placeholder is another token, as in Gemma 3, or one of many,
    as in Llama 4; some name the marks around an item too, as InternVL does. Of two that are as frequent, one of
    ``embed_ids`` is taken.
    """
    counts = Counter(token for token in token_ids if token in embed_ids or token in added)
    embed = max(counts, key=lambda token: (counts[token], token in embed_ids), default=None)
    mask = np.fromiter((token == embed for token in token_ids), np.bool_, len(token_ids))
    return immutable(mask)


def _tokens_of(encoded: Any, start: int, end: int) -> tuple[int, int]:
    """The first and the last token that stand for any character in a span."""
    tokens = [encoded.char_to_token(0, start), encoded.char_to_token(0, end - 1)]
    if None in tokens:
        # A character may belong to no token: white space that a tokenizer drops, or what truncation cut off.
        inside = [token for char in range(start, end) if (token := encoded.char_to_token(0, char)) is not None]
        if not inside:
            raise BadRequestError(_LOST)
        tokens = [inside[0], inside[-1]]
    return tokens[0], tokens[1]


__all__ = ["Placeholder", "PlaceholderRange", "PromptLayout", "RenderedPrompt", "placeholders_of"]
