"""The command line: ``lazymedia render``, ``plan``, ``probe``, ``fetch`` and ``demo``.

Each command is a thin face of the library. `options` lists the exit statuses.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from lazymedia.cli.options import UsageError, parse
from lazymedia.cli.show import print_error
from lazymedia.errors import LazyMediaError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments; those of the process where None.

    Returns:
        The exit status.
    """
    arguments = parse(sys.argv[1:] if argv is None else argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except LazyMediaError as exc:
        print_error(f"error: {exc}")
        return 1
    except (UsageError, ImportError) as exc:  # an option asks for a library that is not there, or cannot be loaded
        print_error(f"lazymedia {arguments.command}: {exc}")
        return 2
    except BrokenPipeError:
        _discard_output()
        return 141  # 128 + SIGPIPE, as a shell reports it for other programs
    except OSError as exc:
        _discard_output()
        print_error(f"error: the output cannot be written: {exc.strerror}")
        return 1
    except BaseException as exc:
        if _interrupted(exc):
            return 130
        raise
    return status


def _discard_output() -> None:
    """Point standard output at nothing, or the interpreter would try to write the rest of it when it exits."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def _interrupted(exc: BaseException) -> bool:
    """Ctrl-C leaves asyncio as itself, and a trio nursery inside a group."""
    if isinstance(exc, BaseExceptionGroup):
        return any(_interrupted(inner) for inner in exc.exceptions)
    return isinstance(exc, KeyboardInterrupt)


__all__ = ["main"]
