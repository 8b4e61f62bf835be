"""When the tokens of a placeholder may be cut out of a tokenised prompt and others put in their stead.

A fast tokenizer first finds its added tokens in the raw text, leftmost and longest first. What lies between two of them
is then normalised, split and encoded by itself. So the tokens beside a placeholder stay what they were when the
placeholder is replaced by a text that begins and ends with added tokens, provided that

* the placeholder and those two tokens take nothing from their neighbours: neither strips white space beside it nor
  needs a word boundary, and each is found in the raw text (``normalized=False``), not in a normalised one;
* no other added token contains one of them, or ends with the beginning of one of them, which would let it reach across
  the seam;
* added tokens are honoured at all, and the tokenizer's Python class adds no step of its own.

Where any of this is in doubt, the prompt is tokenised as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_INERT: Final = frozenset(
    {
        "add_special_tokens",
        "padding_side",
        "return_attention_mask",
        "return_token_type_ids",
        "truncation_side",
        "verbose",
    }
)
"""Tokenizer options that leave each token where it is."""


class Seams:
    """Which tokens of a tokenizer others may be put beside without changing either.

    Args:
        tokenizer: Any Hugging Face tokenizer. Its added tokens are read once.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._added: dict[int, Any] = dict(tokenizer.added_tokens_decoder) if _is_plain(tokenizer) else {}
        self._clean: dict[int, bool] = {}

    def is_clean(self, token_id: int | None) -> bool:
        """Whether what stands on either side of this token is tokenised as if the token were another such token."""
        if token_id is None or token_id not in self._added:
            return False
        if token_id not in self._clean:
            token = self._added[token_id]
            greedy = token.lstrip or token.rstrip or token.single_word or token.normalized
            reached = any(_reaches(other.content, token.content) for other in self._added.values())
            self._clean[token_id] = not greedy and not reached
        return self._clean[token_id]

    def encloses(self, text: str, token_ids: tuple[int, ...]) -> bool:
        """Whether a text, tokenised by itself to these ids, begins and ends with tokens that are clean."""
        if not token_ids or not self.is_clean(token_ids[0]) or not self.is_clean(token_ids[-1]):
            return False
        first, last = self._added[token_ids[0]].content, self._added[token_ids[-1]].content
        return text.startswith(first) and text.endswith(last)


def changes_no_token(text_kwargs: Mapping[str, object]) -> bool:
    """Whether these tokenizer options neither pad, cut, nor ask for outputs that cannot be spliced."""
    return all(name in _INERT or value is None or value is False for name, value in text_kwargs.items())


def compact(token_ids: list[int]) -> tuple[int, ...]:
    """The same ids, equal ones as one object: a picture's hundreds of equal tokens take eight bytes each."""
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(token_id, token_id) for token_id in token_ids)


def _is_plain(tokenizer: Any) -> bool:
    """Whether texts go straight into the Rust tokenizer, with added tokens honoured."""
    from transformers import PreTrainedTokenizerFast

    return (
        isinstance(tokenizer, PreTrainedTokenizerFast)
        and not tokenizer.split_special_tokens
        and type(tokenizer).__call__ is PreTrainedTokenizerFast.__call__
        and type(tokenizer)._encode_plus is PreTrainedTokenizerFast._encode_plus  # noqa: SLF001  # no public name says
    )


def _reaches(other: str, token: str) -> bool:
    """Whether an added token could be found in place of another one, or across its left edge."""
    if other == token:
        return False
    return token in other or any(other.endswith(token[:length]) for length in range(1, min(len(token), len(other))))


__all__ = ["Seams", "changes_no_token", "compact"]
