"""Limits: defaults, the environment, tightening."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from lazymedia.limits import Limits


def test_limits_come_from_the_environment() -> None:
    environ = {
        "LAZYMEDIA_MAX_IMAGE_PIXELS": "1000",
        "LAZYMEDIA_IMAGE_TIMEOUT": "2.5",
        "LAZYMEDIA_IMAGE_FORMATS": "JPEG, PNG",
        "LAZYMEDIA_UNRELATED": "x",
    }

    limits = Limits.from_env(environ)

    assert (limits.max_image_pixels, limits.image_timeout, limits.image_formats) == (1000, 2.5, ("JPEG", "PNG"))
    assert limits.max_redirects == Limits().max_redirects


def test_every_limit_can_be_set_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in fields(Limits):
        monkeypatch.setenv(f"LAZYMEDIA_{field.name.upper()}", "A,B" if field.name == "image_formats" else "7")

    limits = Limits.from_env()

    assert {getattr(limits, field.name) for field in fields(Limits)} == {7, ("A", "B")}


@pytest.mark.parametrize("text", ["", "many", "1e6", "0x10", "-1"])
def test_a_variable_that_is_no_such_number_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)max_image_pixels"):
        Limits.from_env({"LAZYMEDIA_MAX_IMAGE_PIXELS": text})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1])
def test_a_limit_is_finite_and_not_negative(value: float) -> None:
    with pytest.raises(ValueError, match="max_audio_seconds"):
        Limits(max_audio_seconds=value)


@pytest.mark.parametrize("value", [None, "5", True])
def test_a_limit_is_a_number(value: object) -> None:
    with pytest.raises(TypeError, match="max_image_side"):
        Limits(max_image_side=value)  # type: ignore[arg-type]


def test_tightening_lowers_and_never_raises() -> None:
    limits = Limits(max_image_pixels=100, min_audio_rate=4000)

    tight = limits.tighten(max_image_pixels=50, max_image_side=10**9, min_audio_rate=8000)
    loose = limits.tighten(max_image_pixels=1000, min_audio_rate=1)

    assert (tight.max_image_pixels, tight.max_image_side, tight.min_audio_rate) == (50, limits.max_image_side, 8000)
    assert loose == limits


@pytest.mark.parametrize("name", ["no_such_limit", "image_formats", "tighten"])
def test_only_numbers_can_be_tightened(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        Limits().tighten(**{name: 1})


def test_limits_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Limits().max_image_pixels = 1  # type: ignore[misc]
