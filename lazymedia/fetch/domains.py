"""Which hosts an operator lets URLs name.

Comes in: the operator's list, and a URL. Goes out: yes or no. Never here: addresses; a host on the list that resolves
to a forbidden address stays forbidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from lazymedia.errors import BadUrlError
from lazymedia.fetch.url import HttpUrl, parse_authority


@dataclass(frozen=True, slots=True)
class _Entry:
    host: str
    port: int | None
    below: bool

    def admits(self, url: HttpUrl) -> bool:
        named = url.host.endswith(f".{self.host}") if self.below else url.host == self.host
        return named and self.port in {None, url.port}


@dataclass(frozen=True, slots=True)
class DomainRules:
    """Entries, or None for every host. No entries at all admit no host."""

    entries: tuple[_Entry, ...] | None

    @classmethod
    def of(cls, domains: Iterable[str] | None) -> Self:
        """Rules out of texts such as ``"example.com"``, ``"*.example.com"`` (sub-domains only), ``"example.com:443"``.

        Raises:
            TypeError: One text instead of several.
            ValueError: An entry that is no host, such as a URL. The operator's fault.
        """
        if isinstance(domains, str):
            raise TypeError("allowed_media_domains takes several domains, not one text")
        return cls(None if domains is None else tuple(_parse(domain) for domain in domains))

    def admits(self, url: HttpUrl) -> bool:
        return self.entries is None or any(entry.admits(url) for entry in self.entries)


def _parse(domain: str) -> _Entry:
    below = domain.startswith("*.")
    try:
        host, port = parse_authority(domain.removeprefix("*."))
    except BadUrlError:
        raise ValueError(
            f"allowed_media_domains: {domain!r} is not a host such as example.com, *.example.com or example.com:443"
        ) from None
    return _Entry(host, port, below)


__all__ = ["DomainRules"]
