"""How much code one picture passes on its way through a request: files, functions and calls of lazymedia.

A picture is served on loopback and rendered twice through LLaVA's processor; the first request misses the cache, the
second hits. What only starts up (imports, the warm-up, entering and leaving) is not counted.

    python scripts/count_path.py [--list]
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import anyio

import lazymedia
from lazymedia.testing import MediaServer, make_image, make_processor

ROOT = Path(lazymedia.__file__).parent


@contextmanager
def counting() -> Iterator[Counter[tuple[str, str]]]:
    """Count the calls of lazymedia's functions by (file, qualified name), in all threads."""
    calls: Counter[tuple[str, str]] = Counter()
    prefix = f"{ROOT}/"

    def count(frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG001  # a profiler's signature
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix) and code.co_name != "<module>":
            calls[code.co_filename.removeprefix(prefix), code.co_qualname] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def measure() -> dict[str, Counter[tuple[str, str]]]:
    found: dict[str, Counter[tuple[str, str]]] = {}
    with counting() as calls:  # before the first worker thread starts: threads keep the profiler they began with
        async with (
            MediaServer(
                {name: make_image(640, 480, format="JPEG", seed=n) for n, name in enumerate(("/a", "/b"))}
            ) as server,
            lazymedia.open_renderer(
                make_processor("llava"), allowed_networks=["127.0.0.0/8"], warm_up="await"
            ) as renderer,
        ):

            async def render(name: str) -> None:
                picture = {"type": "image_url", "image_url": {"url": server.url(name)}}
                await renderer.render_chat([{"role": "user", "content": [picture, {"type": "text", "text": "?"}]}])

            await render("/b")  # imports what loads on first use
            for verdict in ("miss", "hit"):
                calls.clear()
                await render("/a")
                found[verdict] = Counter({key: n for key, n in calls.items() if not key[0].startswith("testing/")})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print every file with its functions")
    arguments = parser.parse_args()
    for verdict, calls in anyio.run(measure, backend="trio").items():
        files = sorted({file for file, _ in calls})
        print(f"{verdict}: {len(files)} files, {len(calls)} functions, {calls.total()} calls")
        if arguments.list:
            for file in files:
                print(f"  {file}: {', '.join(sorted({name for other, name in calls if other == file}))}")


if __name__ == "__main__":
    main()
