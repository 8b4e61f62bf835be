"""Videos that come as JPEGs, separated by commas."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from lazymedia.errors import PayloadTooLargeError, UnprocessableMediaError
from lazymedia.limits import Limits
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.media.image import ImageMediaIO
from lazymedia.media.video import VideoMediaIO
from lazymedia.testing import make_image

PICTURES = [make_image(format="JPEG", seed=seed) for seed in range(3)]


def text(*pictures: bytes) -> str:
    return ",".join(base64.b64encode(picture).decode() for picture in pictures)


def test_each_picture_is_a_frame() -> None:
    ref = VideoMediaIO(num_frames=2).load_base64_ref("video/jpeg", text(*PICTURES))
    frames, metadata = ref.decode()

    assert ref.spec.settings == {"video_backend": "jpeg_sequence"}
    expected = [np.asarray(ImageMediaIO().load_bytes(picture)) for picture in PICTURES]
    assert np.array_equal(frames, np.stack(expected))
    assert dict(metadata) == {
        "total_num_frames": 3,
        "fps": 1.0,
        "duration": 3.0,
        "frames_indices": [0, 1, 2],
        "timestamps": [0.0, 1.0, 2.0],
        "width": 64,
        "height": 48,
        "video_backend": "jpeg_sequence",
        "do_sample_frames": False,
    }


def test_the_key_tells_where_one_picture_ends() -> None:
    io = VideoMediaIO()
    whole, split = (
        io.load_base64_ref("video/jpeg", text(b"abcdef")),
        io.load_base64_ref("video/jpeg", text(b"abc", b"def")),
    )

    assert whole.key != split.key


def test_other_media_types_are_one_payload() -> None:
    assert VideoMediaIO().load_base64_ref("video/mp4", text(b"abc")).data == b"abc"


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (text(PICTURES[0], PICTURES[1]) + ",", "frame 2 of the video is empty"),
        (text(PICTURES[0]) + ",?", "frame 1 of the video is not valid base64"),
        ("", "frame 0 of the video is empty"),
        ("AAAA," * 768 + "AAAA", "769 frames of a video are sent"),
    ],
)
def test_what_is_no_sequence_is_refused_at_once(sent: str, message: str) -> None:
    with pytest.raises(UnprocessableMediaError, match=message):
        VideoMediaIO().load_base64_ref("video/jpeg", sent)


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        ([PICTURES[0], make_image(32, 48, format="JPEG")], "differ in size"),
        ([PICTURES[0], make_image(format="PNG")], "frame 1 of the video"),
        ([PICTURES[0], PICTURES[1][:300]], "frame 1 of the video"),
    ],
)
def test_pictures_that_make_no_video_are_refused_by_the_decode(pictures: list[bytes], message: str) -> None:
    ref = VideoMediaIO().load_base64_ref("video/jpeg", text(*pictures))

    with pytest.raises(UnprocessableMediaError, match=message) as caught:
        ref.decode()
    assert caught.value.modality == "video"


@pytest.mark.parametrize("limits", [Limits(max_video_frame_pixels=3000), Limits(max_request_decoded_bytes=20_000)])
def test_the_limits_of_videos_hold(limits: Limits) -> None:
    with pytest.raises(UnprocessableMediaError):
        VideoMediaIO(limits=limits).load_base64_ref("video/jpeg", text(*PICTURES)).decode()


def test_bytes_are_counted_before_they_are_decoded() -> None:
    with pytest.raises(PayloadTooLargeError):
        VideoMediaIO(limits=Limits(max_video_bytes=100)).load_base64_ref("video/jpeg", text(*PICTURES))


def test_a_stop_ends_the_sequence() -> None:
    def check() -> None:
        raise DecodeStopped

    ref = VideoMediaIO().load_base64_ref("video/jpeg", text(*PICTURES))
    with stopping_when(check), pytest.raises(DecodeStopped):
        ref.decode()
