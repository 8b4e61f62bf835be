"""One parse, one meaning: tables of what is read how, and of what is rejected."""

from __future__ import annotations

import os
from ipaddress import IPv6Address

import httpx2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lazymedia.errors import BadUrlError, LazyMediaError, NotAllowedError
from lazymedia.fetch.policy.url import DataUrl, FileUrl, HttpUrl, follow, parse_url
from lazymedia.limits import Limits

MAX_LENGTH = Limits().max_url_length


def parse(text: str) -> DataUrl | FileUrl | HttpUrl:
    return parse_url(text, max_length=MAX_LENGTH)


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port"),
    [
        ("http://example.com", "http", "example.com", 80),
        ("HTTP://EXAMPLE.com:80/", "http", "example.com", 80),
        ("hTTps://Example.Com/", "https", "example.com", 443),
        ("https://example.com:80/", "https", "example.com", 80),
        ("http://example.com:8080/", "http", "example.com", 8080),
        ("http://example.com:/", "http", "example.com", 80),
        ("http://example.com./", "http", "example.com", 80),
        ("http://example.com#@127.0.0.1/", "http", "example.com", 80),
        ("http://127.0.0.1#@example.com/", "http", "127.0.0.1", 80),
        ("http://example.com?@127.0.0.1/", "http", "example.com", 80),
        ("http://a_b.example.com/", "http", "a_b.example.com", 80),
        ("http://localhost/", "http", "localhost", 80),
        ("http://[::1]/", "http", "::1", 80),
        ("http://[0:0:0:0:0:0:0:1]:8080/", "http", "::1", 8080),
        ("http://[::ffff:127.0.0.1]/", "http", str(IPv6Address("::ffff:7f00:1")), 80),  # dotted from Python 3.13 on
        ("http://müller.de/", "http", "xn--mller-kva.de", 80),
        ("http://MÜLLER.de/", "http", "xn--mller-kva.de", 80),
        ("http://example。com/", "http", "example.com", 80),
    ],
)
def test_a_web_url_names_one_host_and_port(text: str, scheme: str, host: str, port: int) -> None:
    url = parse(text)

    assert isinstance(url, HttpUrl)
    assert (url.scheme, url.host, url.port) == (scheme, host, port)
    assert parse(url.text) == url


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("", "/"),
        ("/", "/"),
        ("?", "/?"),
        ("?a=b", "/?a=b"),
        ("/a?", "/a?"),
        ("/a#b?c", "/a"),
        ("/a%2Fb.png", "/a%2Fb.png"),
        ("/a%2fb.png", "/a%2fb.png"),
        ("/a%26b%3D", "/a%26b%3D"),
        ("/100%.png", "/100%.png"),
        ("/a b", "/a%20b"),
        ("/a|b", "/a|b"),
        ("/a[1]", "/a[1]"),
        ("/a'b", "/a'b"),
        ("/a+b", "/a+b"),
        ("/a~b", "/a~b"),
        ('/a"b', "/a%22b"),
        ("/a<b>", "/a%3Cb%3E"),
        ("/a`{b}", "/a%60%7Bb%7D"),
        ("/?a=`{b}", "/?a=`{b}"),
        ("/?a= b'c\"", "/?a=%20b'c%22"),
        ("/niño.png", "/ni%C3%B1o.png"),
        ("/?q=niño", "/?q=ni%C3%B1o"),
        ("/proxy/https://host/x.png", "/proxy/https://host/x.png"),
        ("/%0d%0aHost:%20evil", "/%0d%0aHost:%20evil"),
        ("/%00", "/%00"),
        ("//a//b", "//a//b"),
    ],
)
def test_the_target_goes_out_as_it_was_written(written: str, sent: str) -> None:
    """Escapes stay, what no request line can carry is escaped; httpx2 agrees, character for character."""
    url = parse(f"http://example.com{written}")

    assert isinstance(url, HttpUrl)
    assert url.target == sent
    assert httpx2.URL(f"http://example.com{written}").raw_path.decode() == sent


@pytest.mark.parametrize("path", ["/a/../b", "/./a", "/a/%2e%2e/b"])
def test_dot_segments_are_the_servers_business(path: str) -> None:
    """A signature over the path breaks where a client tidies it; httpx2 does, so a caller's is told the target."""
    url = parse(f"http://example.com{path}")

    assert isinstance(url, HttpUrl)
    assert url.target == path


REJECTED = [
    # read in two ways by two parsers
    "http://127.0.0.1\\@example.com/",
    "http://example.com\\@127.0.0.1/",
    "http:\\\\example.com/",
    "http://example.com@127.0.0.1/",
    "http://a@b@c/",
    "http://user:pw@host.com/",
    "http://@host.com/",
    "http://user%40host.com@evil.com/",
    # numbers that some resolvers take for addresses
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://127.0.0.1.5/",
    "http://0177.0.0.1/",
    "http://127.0.0.01/",
    "http://127.0.0.0x1/",
    "http://0/",
    "http://256.1.1.1/",
    "http://foo.123/",
    "http://127.0.0.1../",
    "http://①②⑦.⓪.⓪.①/",
    "http://１２７.０.０.１/",  # noqa: RUF001  # the point
    "http://١٢٧.0.0.1/",
    # zone ids, and what is not an address between brackets
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[::1/",
    "http://[::1]a/",
    "http://[]/",
    "http://[1.2.3.4]/",
    "http://[v1.a]/",
    "http://::1/",
    "http://[::1]:80:80/",
    # hosts
    "http:///x",
    "http://",
    "http:",
    "http:/example.com",
    "http:example.com",
    "//example.com/x",
    "http://./",
    "http://../",
    "http://example.com../",
    "http://.example.com/",
    "http://ex..ample.com/",
    "http://-a.com/",
    "http://a-.com/",
    "http://xn--/",
    "http://xn--.com/",
    f"http://{'a' * 64}.com/",
    f"http://{'a.' * 130}com/",
    "http://a b.com/",
    "http://a%20b.com/",
    "http://%31%32%37.0.0.1/",
    "http://ex\u00adample.com/",
    "http://a\u200db.com/",
    "http://*.example.com/",
    "http://a,b.com/",
    # ports
    "http://example.com:0/",
    "http://example.com:-1/",
    "http://example.com:65536/",
    "http://example.com:99999/",
    "http://example.com:000080/",
    "http://example.com:8e1/",
    "http://example.com:٨٠/",
    "http://example.com:80:80/",
    "http://example.com: 80/",
    "http://example.com:80a/",
    # characters
    "http://example.com/\x00",
    "http://example.com/a\tb",
    "http://example.com/a\r\nHost: evil",
    "http://exam\nple.com/",
    "http://example.com/\x7f",
    "http://example.com/\x85",
    "http://example.com/\u2028",
    "http://example.com/\ud800",
    " http://example.com/",
    "http://example.com/ ",
    "\ufeffhttp://example.com/",
    # schemes
    "",
    " ",
    "?",
    "example.com",
    "/etc/passwd",
    "ftp://example.com/",
    "gopher://example.com/",
    "javascript:alert(1)",
    "s3://bucket/key",
    "blob:http://example.com/",
    "https+http://example.com/",
    "http\u017f://example.com/",  # a long s lower-cases to itself and upper-cases to S
    # size
    f"http://example.com/{'a' * 70_000}",
    "a" * (1 << 20),
]


@pytest.mark.parametrize("text", REJECTED, ids=lambda text: ascii(text[:40]))
def test_what_could_be_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(BadUrlError) as caught:
        parse(text)

    assert "example" not in str(caught.value)
    assert "127" not in str(caught.value)


def test_a_url_is_text() -> None:
    with pytest.raises(BadUrlError, match="not bytes"):
        parse_url(b"http://example.com/", max_length=MAX_LENGTH)  # type: ignore[arg-type]  # what a client may send


def test_the_cap_on_length_is_exact_and_spares_data_urls() -> None:
    parse_url("http://a.com/", max_length=13)
    with pytest.raises(BadUrlError):
        parse_url("http://a.com/", max_length=12)
    assert parse_url("DATA:image/png,x", max_length=12) == DataUrl("DATA:image/png,x")


BASE64 = "iVBORw0KGgoAAAANSUhEUgAA+/=="


@pytest.mark.parametrize("repeats", [1, 1000])
@pytest.mark.parametrize("line", ["", "\n", "\r\n"])
@pytest.mark.parametrize("before", ["", "/", "//", "base64,", ";base64,", "image/png;base64,", "\n", " "])
def test_base64_without_its_prefix_is_named(before: str, line: str, repeats: int) -> None:
    """Whatever its length and form: "more than 8192 characters" would lead to a search for a shorter URL."""
    with pytest.raises(BadUrlError, match=r"no scheme.*data:<media type>;base64,") as caught:
        parse(before + (BASE64 + line) * repeats)
    assert BASE64[:8] not in str(caught.value)


@pytest.mark.parametrize("text", [" data:,x", "\ndata:image/png;base64," + BASE64 * 1000, "\thttp://example.com/"])
def test_white_space_before_a_scheme_is_named(text: str) -> None:
    with pytest.raises(BadUrlError, match="white space"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///a/b.png", b"/a/b.png"),
        ("FILE:///a/b.png", b"/a/b.png"),
        ("file://localhost/a/b.png", b"/a/b.png"),
        ("file://LocalHost/a/b.png", b"/a/b.png"),
        ("file:/a/b.png", b"/a/b.png"),
        ("file:///a%20b.png", b"/a b.png"),
        ("file:///a b.png", b"/a b.png"),
        ("file:///a%2520b.png", b"/a%20b.png"),
        ("file:///%C3%BC.png", "/ü.png".encode()),
        ("file:///ü.png", "/ü.png".encode()),
        ("file:///a%23b%3F.png", b"/a#b?.png"),
        ("file:///a[b] c.md", b"/a[b] c.md"),
        ("file:///100%.png", b"/100%.png"),
        ("file:////x", b"//x"),
    ],
)
def test_a_file_url_is_decoded_once(text: str, path: bytes) -> None:
    assert parse(text) == FileUrl(path)


@pytest.mark.parametrize(
    "text",
    [
        "file:etc/passwd",
        "file:",
        "file://",
        "file://127.0.0.1/share",
        "file://host/x",
        "file:///a%00b",
        "file://localhost",
    ],
)
def test_a_file_url_with_another_host_or_no_absolute_path_is_not_allowed(text: str) -> None:
    with pytest.raises(NotAllowedError):
        parse(text)


@pytest.mark.parametrize("text", ["file:///a?b", "file:///a#b", "file:///a\\b", "file:///a\x00b"])
def test_a_file_url_that_could_be_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(BadUrlError):
        parse(text)


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("https://other.com/x?y", "https://other.com/x?y"),
        ("//other.com/x", "http://other.com/x"),
        ("/x%2Fy?", "http://example.com/x%2Fy?"),
        ("x", "http://example.com/a/x"),
        ("../x", "http://example.com/x"),
        ("?c", "http://example.com/a/b?c"),
        ("x#fragment", "http://example.com/a/x"),
        ("http://other.com/a?", "http://other.com/a?"),
    ],
)
def test_a_redirect_leads_where_browsers_go(location: str, text: str) -> None:
    base = parse("http://example.com/a/b?q")
    assert isinstance(base, HttpUrl)

    assert follow(base, location, max_length=MAX_LENGTH).text == text


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("http://other.com/", NotAllowedError),  # back from https
        ("file:///etc/passwd", NotAllowedError),
        ("data:,x", NotAllowedError),
        ("javascript:alert(1)", BadUrlError),
        ("gopher://other.com/", BadUrlError),
        ("\\\\evil\\x", BadUrlError),
        ("http://127.0.0.1\\@a/", BadUrlError),
        ("https://[::1", BadUrlError),
        ("//[::1", BadUrlError),
        ("https://x.com:99999/", BadUrlError),
        ("https://user:pw@x.com/", BadUrlError),
        ("//user@x.com/", BadUrlError),
        ("/a\tb", BadUrlError),
        ("a\tb", BadUrlError),
        (" a", BadUrlError),
        ("/a\x00b", BadUrlError),
        ("/" + "a" * 10_000, BadUrlError),
    ],
)
def test_a_redirect_is_held_against_the_rules_of_a_first_url(location: str, error: type[LazyMediaError]) -> None:
    base = parse("https://example.com/a")
    assert isinstance(base, HttpUrl)

    with pytest.raises(error):
        follow(base, location, max_length=MAX_LENGTH)


AUTHORITY = st.text(st.sampled_from("a.b-1270x:@[]%\\/?#eé。①\t _~"), max_size=20)


EXAMPLES = 2000 if os.environ.get("LAZYMEDIA_LONG_TESTS") else 400


@settings(derandomize=True, max_examples=EXAMPLES, database=None)
@given(AUTHORITY, st.text(st.sampled_from("/a?#%2Fé \\'|"), max_size=10))
@example("example.com", "//other.com")
def test_whatever_is_accepted_means_the_same_to_httpx2(authority: str, rest: str) -> None:
    """Accepted or rejected, by nothing but our errors; and what is accepted names one host to both parsers."""
    text = f"http://{authority}/{rest}"
    try:
        url = parse(text)
    except BadUrlError:
        return
    assert isinstance(url, HttpUrl)
    theirs = httpx2.URL(text)

    assert parse(url.text) == url
    assert url.host == theirs.raw_host.decode().removesuffix(".") or ":" in url.host
    assert url.port == (theirs.port or 80)
