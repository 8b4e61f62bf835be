"""``python -m benchmarks [--backend trio|asyncio] [--tensors np|pt] [--quick]``: every table, in one run."""

from __future__ import annotations

import argparse

import anyio

from benchmarks import apply, clips, hits, imports


async def _run(arguments: argparse.Namespace) -> None:
    await apply.run(arguments)
    await hits.run(arguments)


def main() -> None:
    """Parse the command line and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--backend", choices=("trio", "asyncio"), default="trio")
    parser.add_argument("--tensors", choices=("np", "pt"), default="np", help="in the tables that show only one")
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it runs, not how fast it is")
    arguments = parser.parse_args()
    arguments.rounds = 3 if arguments.quick else 15
    print(f"{arguments.backend}, {arguments.tensors} tensors, medians of {arguments.rounds} rounds\n")
    imports.run(arguments)
    anyio.run(_run, arguments, backend=arguments.backend)
    clips.run(arguments)


if __name__ == "__main__":
    main()
