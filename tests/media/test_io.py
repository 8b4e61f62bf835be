"""What every decoder inherits: sizes, base64, files, merged arguments."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from lazymedia.errors import PayloadTooLargeError, UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.io import MediaIO
from lazymedia.media.raw import RawBytesMediaIO
from lazymedia.media.ref import MediaRef
from lazymedia.media.spec import DecodeSpec


class Reversing(MediaIO[bytes]):
    modality = "image"
    operator_only = frozenset({"secret"})

    def load_bytes(self, data: bytes) -> bytes:
        return data[::-1]

    def get_decode_spec(self) -> DecodeSpec:
        return DecodeSpec({"reversed": True})

    def get_max_bytes(self) -> int:
        return 6


def test_the_three_ways_in_give_equal_references(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    io = Reversing()

    refs: list[MediaRef[bytes]] = [
        io.load_bytes_ref(b"abc"),
        io.load_base64_ref("image/png", base64.b64encode(b"abc").decode()),
        io.load_file_ref(tmp_path / "x"),
    ]

    assert len({ref.key for ref in refs}) == 1
    assert [ref.decode() for ref in refs] == [b"cba"] * 3


@pytest.mark.parametrize("size", [0, 1, 5, 6, 7, 8, 100])
def test_the_cap_holds_on_every_way_in_and_before_decoding(tmp_path: Path, size: int) -> None:
    data = b"a" * size
    (tmp_path / "x").write_bytes(data)
    io = Reversing()
    ways: tuple[Callable[[], MediaRef[bytes]], ...] = (
        lambda: io.load_bytes_ref(data),
        lambda: io.load_base64_ref("image/png", base64.b64encode(data).decode()),
        lambda: io.load_file_ref(tmp_path / "x"),
    )
    for load in ways:
        if size > 6:
            with pytest.raises(PayloadTooLargeError, match=f"{size} bytes of image are more than the 6 allowed"):
                load()
        else:
            assert load().data == data


@pytest.mark.parametrize("text", ["!!!!", "AAA", "AAAA====", "A A A A", "AA\nAA", "AAAA-_AA", "QUJ", "é" * 4])
def test_what_is_not_strictly_base64_is_refused_and_never_half_decoded(text: str) -> None:
    with pytest.raises(UnprocessableMediaError, match="base64") as caught:
        RawBytesMediaIO("audio").load_base64_ref("audio/wav", text)

    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.modality == "audio"


def test_a_requests_arguments_win_over_an_operators() -> None:
    assert Reversing.merge_kwargs({"a": 1, "b": 1}, {"b": 2}) == {"a": 1, "b": 2}
    assert Reversing.merge_kwargs(None, None) == {}


def test_a_request_cannot_choose_what_is_the_operators() -> None:
    with pytest.raises(UnprocessableMediaError, match="secret"):
        Reversing.merge_kwargs({"secret": 1}, {"secret": 2})


@pytest.mark.parametrize(
    ("modality", "field"),
    [
        ("image", "max_image_bytes"),
        ("video", "max_video_bytes"),
        ("audio", "max_audio_bytes"),
        ("x", "max_download_bytes"),
    ],
)
def test_raw_bytes_are_the_media_and_say_so(modality: str, field: str) -> None:
    io = RawBytesMediaIO(modality, limits=Limits(**{field: 5}))  # type: ignore[arg-type]

    assert io.load_bytes_ref(b"abcde").decode() == b"abcde"
    assert io.get_decode_spec().settings == {f"{modality}_decode": "raw_bytes"}
    with pytest.raises(PayloadTooLargeError):
        io.load_bytes_ref(b"abcdef")


def test_a_decoder_without_a_cap_takes_anything() -> None:
    class Any(MediaIO[bytes]):
        def load_bytes(self, data: bytes) -> bytes:
            return data

    assert Any().load_base64_ref("", "QUJD").decode() == b"ABC"
