"""A decode that is not wanted any more from a certain check on."""

from __future__ import annotations

from lazymedia.media.cancellation import DecodeStopped


class After:
    """A check that lets so many pass, for `stopping_when`.

    Attributes:
        calls: How many there were, the one that stopped the decode included.
    """

    def __init__(self, allowed: int) -> None:
        self._allowed = allowed
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls > self._allowed:
            raise DecodeStopped
