"""``python -m benchmarks [--only NAME …] [--quick]``: every table, or some, in one run; the targets at the end.

Videos, pictures and audio are made on the first run, which takes some minutes, and kept (``--media``: two gigabytes).
Rows against libraries that are not installed say so; the dependency group ``bench`` has them.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio

from benchmarks import apply, audio, cancelling, fetching, hits, imports, models, pictures, plans, videos
from benchmarks.measure import Targets
from benchmarks.media_made import Media, default_folder


def _on_the_loop(run: Callable[[argparse.Namespace], Any]) -> Callable[[argparse.Namespace], None]:
    def begin(arguments: argparse.Namespace) -> None:
        anyio.run(run, arguments, backend=arguments.backend)

    return begin


TABLES: Final[dict[str, Callable[[argparse.Namespace], None]]] = {
    "imports": imports.run,
    "apply": _on_the_loop(apply.run),
    "hits": _on_the_loop(hits.run),
    "plans": _on_the_loop(plans.run),
    "models": _on_the_loop(models.run),
    "pictures": pictures.run,
    "videos": videos.run,
    "eight-videos": videos.run_eight,
    "cancelling": cancelling.run,
    "audio": audio.run,
    "fetching": fetching.run,
}


def main() -> None:
    """Parse the command line and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--backend", choices=("trio", "asyncio"), default="trio", help="where a table shows only one")
    parser.add_argument("--tensors", choices=("np", "pt"), default="np", help="where a table shows only one")
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it runs, not how fast it is")
    parser.add_argument("--only", choices=tuple(TABLES), action="append", help="these tables only; may be repeated")
    parser.add_argument("--media", type=Path, help="where media are kept; the short form keeps none by default")
    parser.add_argument("--long-rounds", type=int, help="rounds of videos and audio")
    arguments = parser.parse_args()
    arguments.rounds = 1 if arguments.quick else 15
    arguments.long_rounds = arguments.long_rounds or (1 if arguments.quick else 3)
    arguments.touched = 0 if arguments.quick else 1 << 30
    arguments.targets = Targets(judged=not arguments.quick)
    print(f"{arguments.backend}, {arguments.tensors} tensors, medians of {arguments.rounds} rounds;", end=" ")
    print(f"of {arguments.long_rounds} for videos and audio\n")
    with contextlib.ExitStack() as stack:
        folder = arguments.media
        if folder is None and arguments.quick:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        arguments.media = Media(folder or default_folder(), quick=arguments.quick)
        for name in arguments.only or TABLES:
            TABLES[name](arguments)
    arguments.targets.show()


if __name__ == "__main__":
    main()
