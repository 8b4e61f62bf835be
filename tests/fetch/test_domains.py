"""Which hosts the operator's list lets URLs name."""

from __future__ import annotations

import pytest

from lazymedia.fetch.policy.domains import DomainRules
from lazymedia.fetch.policy.url import HttpUrl, parse_url


def admits(domains: list[str] | None, text: str) -> bool:
    url = parse_url(text, max_length=1000)
    assert isinstance(url, HttpUrl)
    return DomainRules.of(domains).allows(url)


@pytest.mark.parametrize(
    ("domains", "text", "admitted"),
    [
        (None, "http://anything.example/", True),
        ([], "http://anything.example/", False),
        (["example.com"], "http://example.com/", True),
        (["example.com"], "http://EXAMPLE.com./", True),
        (["EXAMPLE.com."], "http://example.com/", True),
        (["example.com"], "https://example.com:8443/", True),
        (["example.com"], "http://evil-example.com/", False),
        (["example.com"], "http://evilexample.com/", False),
        (["example.com"], "http://example.com.evil.net/", False),
        (["example.com"], "http://sub.example.com/", False),
        (["example.com"], "http://evil.net/?example.com", False),
        (["example.com"], "http://evil.net#example.com", False),
        (["*.example.com"], "http://sub.example.com/", True),
        (["*.example.com"], "http://a.b.example.com/", True),
        (["*.example.com"], "http://example.com/", False),
        (["*.example.com"], "http://evilexample.com/", False),
        (["example.com:443"], "https://example.com/", True),
        (["example.com:443"], "http://example.com/", False),
        (["example.com:80"], "http://example.com/", True),
        (["*.example.com:80"], "http://a.example.com/", True),
        (["müller.de"], "http://xn--mller-kva.de/", True),
        (["xn--mller-kva.de"], "http://MÜLLER.de/", True),
        (["127.0.0.1"], "http://127.0.0.1:8080/", True),
        (["[::1]"], "http://[0:0::1]/", True),
        (["a.com", "b.com"], "http://b.com/", True),
    ],
)
def test_only_the_hosts_on_the_list_are_named(domains: list[str] | None, text: str, admitted: bool) -> None:
    assert admits(domains, text) is admitted


@pytest.mark.parametrize(
    ("allowed", "denied", "text", "admitted"),
    [
        (None, ["example.com"], "http://EXAMPLE.com./", False),
        (None, ["example.com"], "http://sub.example.com/", True),
        (None, ["*.example.com"], "http://a.b.example.com/", False),
        (None, ["*.example.com"], "http://example.com/", True),
        (None, ["example.com:443"], "https://example.com/", False),
        (None, ["example.com:443"], "http://example.com/", True),
        (["*.example.com"], ["secret.example.com"], "http://secret.example.com/", False),
        (["*.example.com"], ["secret.example.com"], "http://open.example.com/", True),
        (["example.com"], ["example.com"], "http://example.com/", False),
        ([], [], "http://example.com/", False),
    ],
)
def test_what_is_denied_is_denied_whatever_is_allowed(
    allowed: list[str] | None, denied: list[str], text: str, admitted: bool
) -> None:
    url = parse_url(text, max_length=1000)
    assert isinstance(url, HttpUrl)

    assert DomainRules.of(allowed, denied).allows(url) is admitted


@pytest.mark.parametrize(
    "entry",
    [
        "http://example.com",
        "example.com/",
        "",
        "*",
        "*.",
        "a b",
        "user@example.com",
        "*.*.com",
        "example.com:0",
        "a..b",
    ],
)
def test_an_entry_that_is_no_host_fails_at_construction(entry: str) -> None:
    with pytest.raises(ValueError, match="allowed_media_domains"):
        DomainRules.of([entry])
    with pytest.raises(ValueError, match="denied_media_domains"):
        DomainRules.of(None, [entry])


def test_one_text_is_not_several_domains() -> None:
    with pytest.raises(TypeError):
        DomainRules.of("example.com")
    with pytest.raises(TypeError, match="denied"):
        DomainRules.of(None, "example.com")
