"""References: decoded once, forked, mapped, released, pickled; and the threads that do so at once."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest

from lazymedia.errors import ReleasedError, UnprocessableMediaError
from lazymedia.media import DecodeSpec, Payload, derive_media_key
from lazymedia.media.cancellation import DecodeStopped, stopping_when
from lazymedia.media.ref import MediaRef

WAIT = 10.0
"""Seconds after which a gate that should have opened fails a test."""


class Gated:
    """A decoder that waits for its gate, and counts."""

    def __init__(self, result: Any = "media") -> None:
        self.result = result
        self.started = threading.Event()
        self.gate = threading.Event()
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        self.started.set()
        assert self.gate.wait(WAIT)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


class Media:
    """Something that can be weakly referenced."""


@contextmanager
def threads(count: int) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(count) as pool:
        yield pool


def in_thread(fn: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(fn())
        except BaseException as exc:
            future.set_exception(exc)

    threading.Thread(target=run, daemon=True).start()
    return future


def test_a_reference_has_the_key_of_its_payload_and_spec() -> None:
    spec = DecodeSpec({"mode": "RGB"})

    ref = MediaRef(str, b"payload", spec)

    assert ref.key == derive_media_key(b"payload", spec)
    assert (ref.spec, ref.data, ref.is_decoded) == (spec, b"payload", False)
    assert MediaRef(list, b"payload").spec == DecodeSpec()


def test_a_given_key_is_taken_as_it_is() -> None:
    assert MediaRef(list, b"payload", key=b"k" * 32).key == b"k" * 32


def test_key_and_spec_and_data_are_read_only() -> None:
    ref = MediaRef(str, b"x")

    for name in ("key", "spec", "data", "is_decoded", "anything"):
        with pytest.raises(AttributeError):
            setattr(ref, name, 1)


@pytest.mark.parametrize("use", [iter, len, lambda ref: ref[0], lambda ref: ref.shape, hash, str, repr, bool, vars])
def test_nothing_decodes_by_accident(use: Callable[[Any], Any]) -> None:
    calls: list[int] = []
    ref = MediaRef(lambda: calls.append(1), b"x")
    with suppress(TypeError, AttributeError):
        use(ref)

    assert not calls


def test_numpy_is_not_given_the_media() -> None:
    calls: list[int] = []
    ref = MediaRef(lambda: calls.append(1), b"x")

    assert np.asarray(ref).dtype == object
    assert not calls


def test_the_repr_shows_state_and_size() -> None:
    ref = MediaRef(lambda: 1, b"payload99")
    shown = [repr(ref)]
    ref.decode()
    shown.append(repr(ref))
    ref.release()
    shown.append(repr(ref))

    prefix = f"<MediaRef {ref.key[:4].hex()}"
    assert shown == [f"{prefix} undecoded, 9 bytes>", f"{prefix} decoded, 9 bytes>", f"{prefix} decoded, 0 bytes>"]


def test_a_hundred_threads_decode_once_between_them_and_get_one_object() -> None:
    decoder = Gated(Media())
    ref = MediaRef(decoder, b"x")
    handles = [ref, ref.fork(), ref.map(lambda media: media), ref.fork().fork().map(lambda media: media)]

    with threads(100) as pool:
        futures = [pool.submit(handles[n % 4].decode) for n in range(100)]
        assert decoder.started.wait(WAIT)
        decoder.gate.set()
        results = {id(future.result(WAIT)) for future in futures}

    assert decoder.calls == 1
    assert len(results) == 1


def test_media_that_is_none_is_remembered() -> None:
    calls: list[int] = []
    ref = MediaRef(lambda: calls.append(1), b"x")

    assert (ref.decode(), ref.decode(), ref.is_decoded, calls) == (None, None, True, [1])


def test_a_failure_passes_unchanged_and_is_not_remembered() -> None:
    failures = iter([ValueError("first"), OSError("second")])

    def decode() -> str:
        for failure in failures:
            raise failure
        return "media"

    ref = MediaRef(decode, b"x")
    with pytest.raises(ValueError, match="first"):
        ref.decode()
    with pytest.raises(OSError, match="second"):
        ref.decode()

    assert ref.decode() == "media"


@pytest.mark.parametrize("modality", [None, "image", "audio"])
def test_a_rejected_payload_names_a_declared_type_of_another_modality(modality: str | None) -> None:
    cause, other = ValueError("why"), OSError("other")
    failures = iter([UnprocessableMediaError("bad", modality=modality)] * 3 + [other])

    def decode() -> str:
        for failure in failures:
            raise failure from cause
        return "media"

    ref = MediaRef(decode, Payload(b"x", declared_type="audio/ogg"), probe=decode)
    for fails in (ref.decode, ref.fork().probe, ref.map(str.upper).decode):
        with pytest.raises(UnprocessableMediaError) as caught:
            fails()
        assert str(caught.value) == ("bad" if modality == "audio" else "bad (the server declared audio/ogg)")
        assert caught.value.__cause__ is cause
    with pytest.raises(OSError, match="other") as unchanged:
        ref.decode()

    assert unchanged.value is other
    assert ref.key == derive_media_key(b"x", DecodeSpec())
    assert ref.decode() == "media"


def test_a_failure_that_names_the_declared_type_keeps_nothing_alive() -> None:
    class Decoder:
        def __call__(self) -> str:
            raise UnprocessableMediaError("bad")

    decoder = Decoder()
    watch = weakref.ref(decoder)
    gc.collect()
    gc.disable()
    try:
        with suppress(UnprocessableMediaError):
            MediaRef(decoder, Payload(b"x", declared_type="a/b")).map(str.upper).decode()
        del decoder
        assert watch() is None
    finally:
        gc.enable()


def test_when_a_decode_is_broken_off_the_next_waiter_decodes() -> None:
    class BrokenOff(BaseException):
        pass

    decoder = Gated(BrokenOff())
    ref = MediaRef(decoder, b"x")
    first = in_thread(ref.decode)
    assert decoder.started.wait(WAIT)
    second = in_thread(ref.decode)
    third = in_thread(ref.fork().decode)
    decoder.result = BrokenOff()
    decoder.gate.set()

    outcomes = [future.exception(WAIT) for future in (first, second, third)]

    assert all(isinstance(outcome, BrokenOff) for outcome in outcomes)
    assert decoder.calls == 3
    assert not ref.is_decoded


def test_a_waiter_that_is_no_longer_wanted_leaves_while_the_decode_goes_on() -> None:
    decoder = Gated()
    ref = MediaRef(decoder, b"x")
    first = in_thread(ref.decode)
    assert decoder.started.wait(WAIT)
    cancelled = threading.Event()

    def stop() -> None:
        if cancelled.is_set():
            raise DecodeStopped

    def wait_stoppably() -> None:
        with stopping_when(stop):
            ref.fork().decode()

    waiter = in_thread(wait_stoppably)
    cancelled.set()

    assert isinstance(waiter.exception(WAIT), DecodeStopped)
    assert not first.done()
    decoder.gate.set()
    assert first.result(WAIT) == "media"


def test_a_decode_that_is_not_wanted_any_more_does_not_begin() -> None:
    def stop() -> None:
        raise DecodeStopped

    decoder = Gated()
    with stopping_when(stop), pytest.raises(DecodeStopped):
        MediaRef(decoder, b"x").decode()

    assert decoder.calls == 0


@pytest.mark.parametrize("attempt", ["decode", "release"])
@pytest.mark.parametrize("through", ["the reference", "a fork", "a mapped reference", "another reference"])
def test_a_decoder_that_comes_back_to_its_own_reference_fails_and_never_hangs(attempt: str, through: str) -> None:
    handles: dict[str, MediaRef[Any]] = {}

    def decode() -> str:
        getattr(handles["target"], attempt)()
        return "media"

    ref = MediaRef(decode, b"x")
    other = MediaRef(ref.decode, b"y")
    handles["target"] = other if through == "another reference" else ref
    entered = {"the reference": ref, "a fork": ref.fork(), "a mapped reference": ref.map(str)}.get(through, other)
    future = in_thread(entered.decode)

    assert isinstance(future.exception(WAIT), RuntimeError)


def test_a_released_reference_cannot_be_decoded() -> None:
    ref = MediaRef(lambda: "media", b"payload")
    ref.release()
    ref.release()

    assert ref.data == b""
    for use in (ref.decode, ref.fork, lambda: ref.map(str), lambda: pickle.dumps(ref)):
        with pytest.raises(ReleasedError):
            use()


def test_decoded_media_stays_readable_after_release() -> None:
    ref = MediaRef(lambda: "media", b"payload")
    ref.decode()
    ref.release()

    assert (ref.decode(), ref.data, ref.fork().decode(), ref.map(len).decode()) == ("media", b"", "media", 5)


def test_release_waits_for_a_decode_in_flight_through_this_handle() -> None:
    decoder = Gated()
    ref = MediaRef(decoder, b"payload")
    decoding = in_thread(ref.decode)
    assert decoder.started.wait(WAIT)
    releasing = in_thread(ref.release)

    assert not releasing.done()
    assert ref.data == b"payload"
    decoder.gate.set()
    releasing.result(WAIT)

    assert decoding.done()
    assert (ref.data, ref.decode()) == (b"", "media")


def test_release_does_not_wait_for_a_strangers_decode() -> None:
    decoder = Gated()
    ref = MediaRef(decoder, b"payload")
    stranger = ref.fork()
    decoding = in_thread(stranger.decode)
    assert decoder.started.wait(WAIT)

    in_thread(ref.release).result(WAIT)
    assert in_thread(stranger.fork).result(WAIT).data == b"payload"

    assert not decoding.done()
    decoder.gate.set()
    assert decoding.result(WAIT) == "media"


@pytest.mark.parametrize("child", ["fork", "map"])
def test_releasing_a_parent_leaves_its_children_usable_and_the_other_way_round(child: str) -> None:
    parent = MediaRef(lambda: "media", b"payload")
    first = parent.fork() if child == "fork" else parent.map(str)
    second = parent.fork() if child == "fork" else parent.map(str)
    first.release()
    parent.release()

    assert second.decode() == "media"
    with pytest.raises(ReleasedError):
        first.decode()


def test_a_fork_shares_bytes_key_and_spec() -> None:
    ref = MediaRef(str, b"payload", DecodeSpec({"a": 1}))

    fork = ref.fork()

    assert fork.data is ref.data
    assert (fork.key, fork.spec) == (ref.key, ref.spec)


def test_a_fork_that_decodes_has_decoded_for_all() -> None:
    ref = MediaRef(lambda: "media", b"payload")
    ref.fork().decode()

    assert ref.is_decoded


def test_mapping_with_settings_extends_the_spec_and_derives_the_key_from_the_parents() -> None:
    ref = MediaRef(lambda: [1, 2], b"payload", DecodeSpec({"a": 1}))

    mapped = ref.map(len, measure="length")

    assert mapped.data is ref.data
    assert mapped.spec == DecodeSpec({"a": 1, "measure": "length"})
    assert mapped.key == derive_media_key(ref.key, mapped.spec)
    assert mapped.decode() == 2


def test_mapping_without_settings_keeps_spec_and_key() -> None:
    ref = MediaRef(lambda: [1, 2], b"payload")
    mapped = ref.map(len)

    assert (mapped.key, mapped.spec) == (ref.key, ref.spec)


def test_two_maps_decode_their_parent_once() -> None:
    decoder = Gated([3, 1])
    decoder.gate.set()
    ref = MediaRef(decoder, b"payload")

    assert (ref.map(min, m="min").decode(), ref.map(max, m="max").decode(), decoder.calls) == (1, 3, 1)


def test_a_mapped_reference_drops_its_parents_media_once_it_has_its_own() -> None:
    media: list[weakref.ref[Media]] = []

    def decode() -> Media:
        result = Media()
        media.append(weakref.ref(result))
        return result

    mapped = MediaRef(decode, b"payload").map(lambda _: "small", step="shrink")
    mapped.decode()
    gc.collect()

    assert media[0]() is None


def test_the_closure_goes_with_the_decode_and_with_the_release() -> None:
    class Payload:
        def decode(self) -> str:
            return "media"

    for use in ("decode", "release"):
        payload = Payload()
        watch = weakref.ref(payload)
        ref = MediaRef(payload.decode, b"x")
        del payload
        getattr(ref, use)()
        gc.collect()

        assert watch() is None


def test_pickling_decodes_and_restores_without_payload() -> None:
    decoder = Gated()
    decoder.gate.set()
    ref = MediaRef(decoder, b"payload", DecodeSpec({"a": 1}))

    restored = pickle.loads(pickle.dumps(ref))
    pickle.dumps(ref)

    assert decoder.calls == 1
    assert (restored.is_decoded, restored.decode(), restored.data) == (True, "media", b"")
    assert (restored.key, restored.spec) == (ref.key, ref.spec)


def test_copying_decodes_nothing() -> None:
    decoder = Gated()
    ref = MediaRef(decoder, b"payload")

    copies = [copy.copy(ref), copy.deepcopy(ref), copy.deepcopy({"items": [ref]})["items"][0]]

    assert decoder.calls == 0
    assert all(twin is not ref and twin.key == ref.key and twin.operation is ref.operation for twin in copies)


def test_a_decoder_cannot_release_its_reference_through_any_handle() -> None:
    """Another thread may be inside through that handle, waiting for this very decode."""
    started, go_on = threading.Event(), threading.Event()
    handles: dict[str, MediaRef[Any]] = {}

    def decode() -> str:
        started.set()
        assert go_on.wait(WAIT)
        handles["fork"].release()
        return "media"

    ref = MediaRef(decode, b"x")
    handles["fork"] = ref.fork()
    first = in_thread(ref.decode)
    assert started.wait(WAIT)
    second = in_thread(handles["fork"].decode)
    while not handles["fork"]._inside:
        pass
    go_on.set()

    assert isinstance(first.exception(WAIT), RuntimeError)
    assert isinstance(second.exception(WAIT), RuntimeError)


def test_decoders_that_wait_for_each_other_end_with_the_cancellation_of_one() -> None:
    """`map` makes no circles; two decoders that do wait until the request of one is given up."""
    begun = [threading.Event(), threading.Event()]
    cancelled = threading.Event()
    handles: list[MediaRef[Any]] = []

    def decode(other: int) -> str:
        begun[1 - other].set()
        assert begun[other].wait(WAIT)
        return str(handles[other].decode())

    def stop() -> None:
        if cancelled.is_set():
            raise DecodeStopped

    def first() -> object:
        with stopping_when(stop):
            return handles[0].decode()

    handles.extend([MediaRef(lambda: decode(1), b"a"), MediaRef(lambda: decode(0), b"b")])
    outcomes = [in_thread(first).exception, in_thread(handles[1].decode).exception]
    for event in begun:
        assert event.wait(WAIT)
    cancelled.set()

    assert isinstance(outcomes[0](WAIT), DecodeStopped)
    # The other then runs the first one's decoder itself, which asks for what is being decoded here.
    assert isinstance(outcomes[1](WAIT), RuntimeError)


def test_an_estimate_of_the_decoded_size_travels_with_forks_and_maps() -> None:
    ref = MediaRef(str, b"x", decoded_bytes=12)

    assert (ref.fork().decoded_bytes, ref.map(len).decoded_bytes, MediaRef(list, b"x").decoded_bytes) == (12, 12, None)


def test_random_decodes_forks_and_releases_from_many_threads_agree() -> None:
    """Whatever the order, each handle decodes to the media or says that it was released, and the decoder runs once."""
    for round_ in range(30):
        decoder = Gated("media")
        decoder.gate.set()
        ref = MediaRef(decoder, b"payload")
        forks = [ref.fork() for _ in range(8)]
        barrier = threading.Barrier(16)

        def use(number: int, forks: list[MediaRef[Any]] = forks, barrier: threading.Barrier = barrier) -> object:
            handle = forks[number % 8]
            barrier.wait(WAIT)
            try:
                if number < 8:
                    return handle.decode()
                handle.release()
            except ReleasedError:
                pass
            return None

        with threads(16) as pool:
            results = list(pool.map(use, range(16)))

        assert set(results) <= {"media", None}, round_
        assert decoder.calls <= 1
        assert all(fork.data == b"" for fork in forks)
