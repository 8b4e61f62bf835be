"""The command line: ``lazymedia render``, ``probe``, ``fetch`` and ``demo``.

Comes in: arguments. Goes out: text for people, JSON for programs, an exit status. Never here: anything that the library
cannot do; each command is a thin face of it.

Exit status: 0 when all went well, 1 when an item was refused or a request failed (one line says why), 2 for bad usage,
130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lazymedia.cli.options import UsageError, parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments; those of the process where None.

    Returns:
        The exit status.
    """
    from lazymedia.errors import LazyMediaError

    arguments = parse(sys.argv[1:] if argv is None else argv)
    try:
        arguments.run(arguments)
    except LazyMediaError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    except (UsageError, ImportError) as exc:  # an option asks for a library that is not there, or cannot be loaded
        print(f"lazymedia {arguments.command}: {exc}", file=sys.stderr)
        return 2
    except BaseException as exc:
        if _interrupted(exc):
            return 130
        raise
    return 0


def _interrupted(exc: BaseException) -> bool:
    """Ctrl-C leaves asyncio as itself, and a trio nursery inside a group."""
    if isinstance(exc, BaseExceptionGroup):
        return any(_interrupted(inner) for inner in exc.exceptions)
    return isinstance(exc, KeyboardInterrupt)


__all__ = ["main"]
