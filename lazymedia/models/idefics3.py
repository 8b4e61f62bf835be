"""Idefics3: a picture is cut into square tiles, and the whole of it in one more tile comes after them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from lazymedia.errors import UnprocessableMediaError
from lazymedia.processing.chat_style import ChatStyle
from lazymedia.processing.fields import Flat, Hidden
from lazymedia.processing.info import ProcessingInfo
from lazymedia.processing.prompt import RenderedPrompt
from lazymedia.processing.sizes import largest, resized

_LARGEST_SIDE: Final = 4096
"""Pixels to which the processor brings a side that would become longer."""

_MOST_TILES: Final = 6
"""Rows, and columns, for which Idefics3's vocabulary has tokens."""


class Idefics3Info(ProcessingInfo):
    """``pixel_values`` float32 (1, tiles of all pictures, 3, side, side) and ``pixel_attention_mask`` int64 (1, tiles,
    side, side), 1 where a picture is; side 364 by default.

    A request may turn tiling off (``do_image_splitting=False``) or choose the longer side of what is cut into tiles
    (``size={"longest_edge": …}``).
    """

    layouts = {  # noqa: RUF012  # declared a ClassVar in the base class
        "image": {
            "pixel_values": Flat(dim=1, pad=0),
            "pixel_attention_mask": Flat(dim=1, pad=0),
            "rows": Hidden(),
            "cols": Hidden(),
        }
    }
    # The side of a tile is the model's, and its number of tokens does not follow it.
    operator_only = frozenset({"max_image_size"})
    chat_style = ChatStyle(
        openings={"system": "System:", "user": "User:", "assistant": "Assistant:"},
        closing="<end_of_utterance>\n",
        generation="Assistant:",
        items={"image": "{placeholder}"},
        lead=" ",
    )

    def check_picture(self, height: int, width: int, settings: Mapping[str, Any]) -> None:
        super().check_picture(height, width, settings)
        if not settings.get("do_image_splitting"):
            return
        side = settings["max_image_size"]["longest_edge"]
        rows, columns = (math.ceil(length / side) for length in _resized(height, width, settings))
        if max(rows, columns) > _MOST_TILES:
            raise UnprocessableMediaError(
                f"the processor would cut this picture into {rows} x {columns} tiles; it has tokens for "
                f"{_MOST_TILES} x {_MOST_TILES}"
            )

    def working_pixels(self, height: int, width: int, settings: Mapping[str, Any]) -> int:
        """The picture as it is resized, with sides of whole tiles where it is cut into them, and as one tile."""
        steps = [(height, width), _resized(height, width, settings)]
        side = settings["max_image_size"]["longest_edge"]
        if settings.get("do_image_splitting"):
            rows, columns = (math.ceil(length / side) * side for length in steps[-1])
            steps.append((rows, columns))
        return largest([*steps, (side, side)])

    def token_types(self, rendered: RenderedPrompt) -> list[list[int]]:
        """Here every token that a picture became is of its modality, row and column marks too."""
        lengths = [found.length for found in rendered.placeholders.get("image", ())]
        types: list[list[int]] = self.hf_processor.create_mm_token_type_ids([rendered.token_ids], [lengths])
        return types


def _resized(height: int, width: int, settings: Mapping[str, Any]) -> tuple[int, int]:
    """(height, width) after the first resizing. Only the longest edge is held below `_LARGEST_SIDE`."""
    size = settings.get("size") or {}
    if not settings.get("do_resize"):
        return height, width
    if "longest_edge" in size:
        size = {"longest_edge": min(size["longest_edge"], _LARGEST_SIDE)}
    return resized(height, width, size)


__all__ = ["Idefics3Info"]
