"""Which hosts URLs may name. A host on the list that resolves to a forbidden address stays forbidden."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from lazymedia.errors import BadUrlError
from lazymedia.fetch.policy.url import HttpUrl, parse_authority


@dataclass(frozen=True, slots=True)
class _Entry:
    host: str
    port: int | None
    below: bool

    def names(self, url: HttpUrl) -> bool:
        named = url.host.endswith(f".{self.host}") if self.below else url.host == self.host
        return named and self.port in {None, url.port}


@dataclass(frozen=True, slots=True)
class DomainRules:
    """What is allowed, None for every host and no entry for none; and what is denied, which goes first."""

    allowed: tuple[_Entry, ...] | None
    denied: tuple[_Entry, ...] = ()

    @classmethod
    def of(cls, allowed: Iterable[str] | None, denied: Iterable[str] = ()) -> Self:
        """Rules out of texts such as ``"example.com"``, ``"*.example.com"`` (sub-domains only), ``"example.com:443"``.

        Raises:
            TypeError: One text instead of several.
            ValueError: An entry that is no host, such as a URL. The operator's fault.
        """
        return cls(
            None if allowed is None else _entries("allowed_media_domains", allowed),
            _entries("denied_media_domains", denied),
        )

    def allows(self, url: HttpUrl) -> bool:
        """Whether a URL may name its host."""
        if any(entry.names(url) for entry in self.denied):
            return False
        return self.allowed is None or any(entry.names(url) for entry in self.allowed)


def _entries(setting: str, domains: Iterable[str]) -> tuple[_Entry, ...]:
    if isinstance(domains, str):
        raise TypeError(f"{setting} takes several domains, not one text")
    return tuple(_parse(setting, domain) for domain in domains)


def _parse(setting: str, domain: str) -> _Entry:
    below = domain.startswith("*.")
    try:
        host, port = parse_authority(domain.removeprefix("*."))
    except BadUrlError:
        raise ValueError(
            f"{setting}: {domain!r} is not a host such as example.com, *.example.com or example.com:443"
        ) from None
    return _Entry(host, port, below)


__all__ = ["DomainRules"]
