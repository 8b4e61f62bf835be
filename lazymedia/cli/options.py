"""The options of all commands. The commands themselves load when they run, so that ``--help`` is quick."""

from __future__ import annotations

import argparse
import importlib
import json
import os
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lazymedia import __version__
from lazymedia.contexts import contextmanager
from lazymedia.limits import Limits

if TYPE_CHECKING:
    from lazymedia.fetch import MediaConnector
C = TypeVar("C", bound="MediaConnector")


class UsageError(Exception):
    """The command was called wrongly; its text says how."""


_EPILOG: Final = """\
example:
  lazymedia fetch https://example.com/cat.jpg song.mp3 -o media
  lazymedia render request.json --processor path/to/saved/processor --repeat 2

exit status:
  0    all went well
  1    a source or a request failed; one line on standard error gives the reason
  2    bad usage, or a library that an option needs is not installed
  130  interrupted (Ctrl-C)
  141  the reader of standard output has gone (a broken pipe)

Limits come from the environment: LAZYMEDIA_MAX_IMAGE_PIXELS=50000000, for example.
"""


def parse(argv: Sequence[str]) -> Namespace:
    """Arguments of one command. Exits with status 2 when they make no sense, as argparse does."""
    parser = ArgumentParser(
        prog="lazymedia",
        description="Media for multimodal models: fetched safely, decoded only when no cache holds the result.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lazymedia {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = _shared()

    def add(name: str, summary: str, example: str) -> ArgumentParser:
        command = commands.add_parser(
            name,
            parents=[shared],
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=f"example:\n  {example}\n\nexit status: see lazymedia --help",
            formatter_class=RawDescriptionHelpFormatter,
        )
        command.set_defaults(run=_command(name))
        return command

    render = add("render", "turn a chat request into a model's inputs", "lazymedia render request.json --json")
    render.add_argument("--out", metavar="FILE", help="write the tensors of the last render as safetensors")
    plan = add("plan", "lay a chat request out without decoding its media", "lazymedia plan request.json --json")
    for command, verb in ((render, "render"), (plan, "plan")):
        command.add_argument(
            "request", metavar="REQUEST.json", help='an OpenAI chat body with "messages"; - reads standard input'
        )
        command.add_argument(
            "--processor",
            metavar="PATH-OR-NAME",
            help="a saved Hugging Face processor, or the name of one in the local cache; a built-in LLaVA's otherwise",
        )
        command.add_argument(
            "--repeat", type=_positive, default=1, metavar="N", help=f"{verb} N times, to see what is kept"
        )

    probe = add(
        "probe",
        "show what references contain without decoding them",
        "lazymedia probe cat.jpg https://example.com/a.mp4",
    )
    probe.add_argument("sources", nargs="+", metavar="URL-OR-FILE")
    probe.add_argument(
        "--modality", choices=("image", "video", "audio"), help="take them for this; what their bytes say otherwise"
    )

    fetch = add("fetch", "fetch encoded media into a folder", "lazymedia fetch https://example.com/cat.jpg -o media")
    fetch.add_argument("sources", nargs="+", metavar="URL-OR-FILE")
    fetch.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to write to; made if missing")

    demo = add("demo", "three requests: cold, hot, and mixed", "lazymedia demo cat.jpg dog.jpg")
    demo.add_argument("sources", nargs="*", metavar="URL-OR-FILE", help="your own pictures instead of generated ones")
    return parser.parse_args(argv)


def _shared() -> ArgumentParser:
    shared = ArgumentParser(add_help=False)
    shared.add_argument("--media-io-kwargs", type=_mapping, metavar="JSON", help='decoder options, {"image": {…}}')
    shared.add_argument("--allowed-local-media-path", metavar="DIR", help="folder below which file URLs may point")
    shared.add_argument("--allowed-network", action="append", default=[], metavar="CIDR", help="may be repeated")
    shared.add_argument("--allowed-media-domain", action="append", metavar="D", help="may be repeated; any otherwise")
    shared.add_argument("--denied-media-domain", action="append", default=[], metavar="D", help="may be repeated")
    shared.add_argument("--cache-dir", metavar="DIR", help="keep downloads in this folder, and use those that it has")
    shared.add_argument("--backend", choices=("trio", "asyncio"), default="trio", help="the event loop (trio)")
    shared.add_argument("--json", action="store_true", help="print JSON for programs")
    return shared


def _command(name: str) -> Any:
    def run(arguments: Namespace) -> int:
        status: int = importlib.import_module(f"lazymedia.cli.{name}").run(arguments)
        return status

    return run


def _mapping(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"not JSON: {exc}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("expected a JSON object")
    return value


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError("expected a whole number from 1")
    return int(text)


def open_connector(
    arguments: Namespace, root: str | None = None, *, networks: Sequence[str] = (), kind: Callable[..., C] | None = None
) -> C:
    """A connector under the shared options and the limits of the environment, not entered yet.

    Args:
        arguments: Parsed arguments.
        root: The folder of the files that were named directly, where there are any.
        networks: Networks that are allowed besides.
        kind: The class of connector; `MediaConnector` where None.

    Raises:
        UsageError: An option that cannot be used.
    """
    from lazymedia.fetch import DownloadCache, MediaConnector

    make: Any = MediaConnector if kind is None else kind
    with usage_errors():
        connector: C = make(
            allowed_local_media_path=_common(arguments.allowed_local_media_path, root),
            allowed_networks=(*arguments.allowed_network, *networks),
            allowed_media_domains=arguments.allowed_media_domain,
            denied_media_domains=arguments.denied_media_domain,
            download_cache=None if arguments.cache_dir is None else DownloadCache(arguments.cache_dir),
            limits=limits(),
        )
    return connector


def _common(*folders: str | None) -> str | None:
    """The folder that contains all of these."""
    given = [os.path.realpath(folder) for folder in folders if folder is not None]
    return os.path.commonpath(given) if given else None


def limits() -> Limits:
    """The limits that the environment sets.

    Raises:
        UsageError: A variable that is no such number.
    """
    with usage_errors():
        return Limits.from_env()


@contextmanager
def usage_errors() -> Iterator[None]:
    """What a wrong option makes of the library is reported as such, in one line."""
    try:
        yield
    except (TypeError, ValueError, OSError) as exc:
        raise UsageError(str(exc)) from exc


__all__ = ["UsageError", "limits", "open_connector", "parse", "usage_errors"]
