"""A child process that was forked while an owner was open, or a reference in decode: an error, and never a hang."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.programs import Programs

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

PREAMBLE = """
import anyio, os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is what this is about
from lazymedia import (
    ImageMediaIO, MediaConnector, MediaRef, MultiModalProcessor, RawBytesMediaIO, SyncMediaConnector, SyncRenderer
)
from lazymedia.testing import GatedMediaIO, make_image

IMAGE = RawBytesMediaIO("image")

def in_child(*calls):
    '''Print what each call does in a forked child.'''
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        for call in calls:
            try:
                print("returned", call())
            except BaseException as error:
                print(type(error).__name__, "forked" in str(error))
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


Lines = Callable[[str], list[str]]


@pytest.fixture
def lines(programs: Programs) -> Lines:
    """What a program prints behind the preamble."""

    def run(program: str) -> list[str]:
        done = programs.run("-c", PREAMBLE + program)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_synchronous_twins_say_so(backend: str, lines: Lines) -> None:
    assert lines(
        f"""
from tests.pipeline.support import hf_processor, picture
with SyncMediaConnector(backend={backend!r}) as media, SyncRenderer(hf_processor(), backend={backend!r}) as renderer:
    in_child(
        lambda: media.fetch_image("data:,x", IMAGE),
        lambda: media.fetch_video_and_audio("data:,x", IMAGE, IMAGE),
        lambda: renderer.render("<image>\\\\n", {{"image": picture(1)}}),
        lambda: media.__exit__(None, None, None),
        lambda: renderer.__exit__(None, None, None),
    )
    print(media.fetch_image("data:,x", IMAGE).data)
"""
    ) == [
        *["RuntimeError True"] * 3,
        *["returned None"] * 2,
        "b'x'",
    ]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_asynchronous_owners_say_so(backend: str, lines: Lines) -> None:
    assert (
        lines(
            f"""
from tests.pipeline.support import WatchedInfo, hf_processor, picture, request
def step(coroutine):
    return coroutine.send(None)

async def main():
    async with MediaConnector() as media, MultiModalProcessor(WatchedInfo(hf_processor())) as processor:
        inputs = request(processor, [picture(1)])
        in_child(
            lambda: step(media.fetch_image("data:,x", IMAGE)),
            lambda: step(media.build_ref(b"x", IMAGE)),
            lambda: step(processor.apply(inputs)),
            lambda: step(processor.warm_up()),
            lambda: processor.apply_blocking(inputs),
        )

anyio.run(main, backend={backend!r})
"""
        )
        == ["RuntimeError True"] * 5
    )


def test_new_owners_can_be_opened(lines: Lines) -> None:
    assert lines(
        """
def fetched():
    with SyncMediaConnector() as media:
        return media.fetch_image("data:,x", IMAGE).data

with SyncMediaConnector() as media:
    in_child(fetched)
"""
    ) == ["returned b'x'"]


def test_a_reference_in_decode_says_so_and_can_be_released(lines: Lines) -> None:
    assert lines(
        """
io = GatedMediaIO(lambda data: data)
ref = io.load_bytes_ref(b"payload")
fork, mapped = ref.fork(), ref.map(len)
mapped.fork()
thread = threading.Thread(target=ref.decode)
thread.start()
io.started.wait()
in_child(ref.decode, fork.decode, mapped.decode, lambda: ref.is_decoded, ref.release, fork.release, mapped.release)
io.release()
thread.join()
print(ref.decode(), mapped.decode())
"""
    ) == [
        *["RuntimeError True"] * 3,
        "returned False",
        *["returned None"] * 3,
        "b'payload' 7",
    ]


def test_an_idle_reference_decodes(lines: Lines) -> None:
    """Also while others were in decode, by several threads of the child, and again in a child of the child."""
    assert lines(
        """
from concurrent.futures import ThreadPoolExecutor

busy = GatedMediaIO(lambda data: data)
thread = threading.Thread(target=busy.load_bytes_ref(b"busy").decode)
thread.start()
busy.started.wait()

idle = ImageMediaIO().load_bytes_ref(make_image(8, 8))
decoded = ImageMediaIO().load_bytes_ref(make_image(8, 8))
decoded.decode()
small = idle.map(lambda image: image.size)

def by_many():
    with ThreadPoolExecutor(8) as pool:
        return {pool.submit(small.decode).result() for _ in range(50)}

def in_grandchild():
    in_child(lambda: ImageMediaIO().load_bytes_ref(make_image(9, 9)).decode().size, lambda: idle.decode().size)

in_child(by_many, lambda: idle.decode().size, lambda: decoded.decode().size, idle.release, in_grandchild)
busy.release()
thread.join()
"""
    ) == [
        "returned {(8, 8)}",
        "returned (8, 8)",
        "returned (8, 8)",
        "returned None",
        "returned (9, 9)",
        "returned (8, 8)",
        "returned None",
    ]
