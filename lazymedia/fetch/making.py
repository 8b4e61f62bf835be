"""From a payload, however it came, to a reference.

Comes in: a `MediaIO`, and a download, a data URL, a file or bytes. Goes out: the reference that the decoder makes of
it, which is one indeed, with a remark for its refusal where a server declared something else. Never here: the event
loop; these functions are for a worker thread.
"""

from __future__ import annotations

from typing import Any, TypeVar, final

from lazymedia.fetch.data_url import DataPayload
from lazymedia.fetch.download import Downloaded
from lazymedia.fetch.flights import Judge
from lazymedia.fetch.local_file import LocalRoot
from lazymedia.fetch.transport import declared_type
from lazymedia.fetch.url import DataUrl, FileUrl
from lazymedia.media import MediaIO, MediaRef, shared_payload_digest

T = TypeVar("T")
V = TypeVar("V")
A = TypeVar("A")


@final
class TwoOfOne(MediaIO[V]):
    """Makes two references out of one payload, and returns the first."""

    modality = "video"

    def __init__(self, video_io: MediaIO[V], audio_io: MediaIO[A]) -> None:
        self._video_io = video_io
        self._audio_io = audio_io
        self.audio_ref: MediaRef[Any] | None = None

    def load_bytes(self, data: bytes) -> V:
        return self._video_io.load_bytes(data)

    def load_bytes_ref(self, data: bytes) -> MediaRef[V]:
        with shared_payload_digest(data):
            video_ref = make_ref(self._video_io, data)
            self.audio_ref = make_ref(self._audio_io, data)
        return video_ref

    def remark(self, remark: str) -> None:
        """See `MediaRef.remarked`, for the second reference."""
        if self.audio_ref is not None:
            self.audio_ref = self.audio_ref.remarked(remark)

    def judge_head(self, head: bytes, declared: int | None) -> bool:
        verdicts = [decoder.judge_head(head, declared) for decoder in (self._video_io, self._audio_io)]
        return all(verdicts)

    def get_max_bytes(self) -> int | None:
        caps = (self._video_io.get_max_bytes(), self._audio_io.get_max_bytes())
        return min((cap for cap in caps if cap is not None), default=None)


def judge_of(media_io: MediaIO[Any]) -> Judge | None:
    """What judges a payload's beginning; None where that would accept anything."""
    return None if type(media_io).judge_head is MediaIO.judge_head else media_io.judge_head


def of_download(media_io: MediaIO[T], downloaded: Downloaded) -> MediaRef[T]:
    ref = _of_payload(media_io, downloaded)
    declared = declared_type(downloaded.headers)
    if declared is None or declared.startswith(f"{media_io.modality}/"):
        return ref
    remark = f"the server declared {declared}"
    if isinstance(media_io, TwoOfOne):
        media_io.remark(remark)
    return ref.remarked(remark)


def _of_payload(media_io: MediaIO[T], downloaded: Downloaded) -> MediaRef[T]:
    if downloaded.digest is None:
        return make_ref(media_io, downloaded.data)
    with shared_payload_digest(downloaded.data, downloaded.digest):
        return make_ref(media_io, downloaded.data)


def from_data_url(media_io: MediaIO[T], url: DataUrl, max_bytes: int) -> MediaRef[T]:
    payload = DataPayload.parse(url, max_bytes)
    if payload.is_base64 and media_io.reads_base64(payload.media_type):
        # A decoder with a reading of its own for some media type.
        return checked(type(media_io).__name__, media_io.load_base64_ref(payload.media_type, payload.symbols()))
    return make_ref(media_io, payload.decode(max_bytes))


def from_file(media_io: MediaIO[T], root: LocalRoot, url: FileUrl, max_bytes: int) -> MediaRef[T]:
    return make_ref(media_io, root.read(url, max_bytes))


def make_ref(media_io: MediaIO[T], data: bytes) -> MediaRef[T]:
    return checked(type(media_io).__name__, media_io.load_bytes_ref(data))


def checked(maker: str, ref: MediaRef[T]) -> MediaRef[T]:
    made: object = ref
    if not isinstance(made, MediaRef):
        raise TypeError(f"{maker} made a {type(made).__name__} where a MediaRef belongs")
    return ref


__all__ = ["TwoOfOne", "checked", "from_data_url", "from_file", "judge_of", "make_ref", "of_download"]
