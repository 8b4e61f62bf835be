"""The error tree: classes, hints, texts."""

from __future__ import annotations

import pickle

import pytest

from lazymedia import errors
from lazymedia.errors import (
    MAX_TEXT,
    CacheMissError,
    LazyMediaError,
    OverloadedError,
    UnprocessableMediaError,
    UpstreamError,
    scrub,
)

ALL = [
    getattr(errors, name)
    for name in errors.__all__
    if isinstance(getattr(errors, name), type) and getattr(errors, name) is not LazyMediaError
]


@pytest.mark.parametrize(
    ("name", "builtin", "status", "retryable"),
    [
        ("BadUrlError", ValueError, 400, False),
        ("BadRequestError", ValueError, 400, False),
        ("NotAllowedError", PermissionError, 403, False),
        ("PayloadTooLargeError", ValueError, 413, False),
        ("UnprocessableMediaError", ValueError, 422, False),
        ("DecoderCrashedError", RuntimeError, 500, False),
        ("OverlapError", RuntimeError, 500, False),
        ("ReleasedError", RuntimeError, 500, False),
        ("NotPlannableError", NotImplementedError, 501, False),
        ("UpstreamError", ConnectionError, 502, True),
        ("OverloadedError", RuntimeError, 503, True),
        ("CacheMissError", KeyError, 503, True),
        ("CacheDriftError", RuntimeError, 503, True),
        ("FetchTimeoutError", TimeoutError, 504, True),
    ],
)
def test_each_error_inherits_a_builtin_and_hints_a_status(
    name: str, builtin: type[Exception], status: int, retryable: bool
) -> None:
    error: LazyMediaError = getattr(errors, name)()

    assert issubclass(type(error), builtin)
    assert (error.status_hint, error.retryable, error.modality, error.index) == (status, retryable, None, None)
    assert name in (errors.__doc__ or "")


def test_the_table_above_is_complete() -> None:
    assert len(ALL) == 14


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_an_error_told_its_place_keeps_its_class_and_names_the_place(kind: type[LazyMediaError]) -> None:
    error = kind() if kind is CacheMissError else kind("it broke")

    located = error.at("image", 3)

    assert type(located) is kind
    assert (located.modality, located.index, located.__cause__) == ("image", 3, error)
    assert "image at index 3" in str(located)


def test_a_remark_stands_behind_the_text_and_leaves_the_rest() -> None:
    error = UnprocessableMediaError("it broke", modality="image", index=3)
    error.__cause__ = ValueError("why")

    noted = error.with_note("somebody said /etc/passwd")

    assert str(noted) == "it broke (somebody said <path>)"
    assert (noted.modality, noted.index, noted.__cause__) == ("image", 3, error.__cause__)
    assert str(error) == "it broke"


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_errors_pickle(kind: type[LazyMediaError]) -> None:
    error = kind(["a", "b"]) if kind is CacheMissError else kind("it broke", modality="video", index=1)

    copy = pickle.loads(pickle.dumps(error))

    assert str(copy) == str(error)
    assert (copy.modality, copy.index) == (error.modality, error.index)


def test_what_an_error_says_of_another_try_stays_with_it() -> None:
    error = UpstreamError("it broke", transient=True, retry_after=3.0)
    for copied in (pickle.loads(pickle.dumps(error)), error.at("image", 1)):
        assert (copied.transient, copied.retry_after) == (True, 3.0)
    assert OverloadedError(retry_after=1.0).at("image", 1).retry_after == 1.0


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("cannot identify image file <_io.BytesIO object at 0x7f3a2b1c4d50>", "7f3a2b1c4d50"),
        ("at 0xDEADBEEF1234", "DEADBEEF"),
        ("GET https://user:pw@host.example/a.png?token=abc failed", "token"),
        ("GET https://user:pw@host.example/a.png?token=abc failed", "host.example"),
        ("no such file: '/home/alice/secret.png'", "alice"),
        ("/etc/passwd: denied", "passwd"),
        ("connect to 169.254.169.254 refused", "169.254"),
        ("connect to [fd00:ec2::254]:80 refused", "fd00"),
        ("connect to ::1 refused", "::1"),
        ("bad data:image/png;base64,iVBORw0KGgoAAAANSUhEUg==", "iVBOR"),
        ("line one\r\nSet-Cookie: x", "\n"),
        ("[Errno 2] No such file or directory: '/srv/my models/secret/x.bin'", "models"),
        ("file:/srv/secret/x", "secret"),
        ("error:/srv/secret", "secret"),
        ("</srv/secret>", "secret"),
        ("//x.internal/secret", "internal"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\bob\\x", "bob"),
        ("GET https://h/c d?token=abc", "abc"),
        ("DATA:image/png;base64,iVBORw0KGgo=", "iVBOR"),
        ("data:,secret", "secret"),
        ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ is not base64", "iVBOR"),
        (f"cannot identify {bytes(range(200))!r}", "x01"),
        (f"cannot identify {bytes(range(9000 % 256)) * 40!r}", "x01"),
    ],
)
def test_a_text_is_scrubbed_of_what_a_client_must_not_see(text: str, secret: str) -> None:
    assert secret not in scrub(text)
    assert secret not in str(UnprocessableMediaError(text))


@pytest.mark.parametrize(
    "text",
    [
        "image at index 2 could not be decoded: broken PNG file (chunk b'IDAT')",
        "5 items are more than the 4 that a request may have",
        "12000 x 9000 pixels are more than 89478485",
        "unsupported: image/svg+xml; use image/png or image/jpeg",
        "version 1.2.3 and ratio 16:9 at 10:30",
    ],
)
def test_ordinary_sentences_are_left_alone(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.parametrize("text", ["a \ud800 b", "\udfff", "\ud83d\ud83d", "a " * 200 + "\udc00"])
def test_every_text_has_utf_8(text: str) -> None:
    """JSON has escapes for halves of surrogate pairs, and no answer can hold them."""
    assert LazyMediaError(text).args[0].encode()


def test_texts_are_cut() -> None:
    assert len(str(UnprocessableMediaError("word " * 2_000))) == MAX_TEXT
