"""Python programs in processes that are forked from one which has imported the large libraries.

A fresh interpreter takes seconds to import torch and transformers. `Programs` starts one, which imports them and then
forks a process for each program. lazymedia itself is not imported before the fork, so that what a program leaves
out of its own imports is found; a test that needs a process without the libraries starts an interpreter of its own.

Run as a program, this file is that interpreter.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, TracebackType
from typing import IO, Any, Final, Self

ROOT: Final = Path(__file__).parents[1]

LARGE: Final = """
import torch, torchvision, transformers
transformers.LlavaProcessor, transformers.Qwen2VLProcessor, transformers.AutoProcessor
"""
"""Names of transformers are imported when they are first used."""

_LENGTH: Final = 8
"""Bytes of a message's length, with which its file descriptors are sent."""


class Programs:
    """An interpreter that is ready to fork, from the first program on until the block ends.

    Args:
        preload: What it runs before the first fork. It must leave no thread at work, since a forked process has none.
    """

    def __init__(self, preload: str = LARGE) -> None:
        self._preload = preload
        self._interpreter: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        stdout: IO[Any] | int | None = None,
        stderr: IO[Any] | int | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 100,
    ) -> subprocess.CompletedProcess[str]:
        """What ``python -W error`` with these arguments comes to.

        Args:
            arguments: ``-c`` and a text, ``-m`` and a module, or a file; and the program's own.
            stdin: What it reads.
            stdout: Where it writes; captured by default.
            stderr: The same.
            env: Variables beside this process's own. Libraries that read theirs when they are imported have done so.
            timeout: Seconds.

        Raises:
            TimeoutError: The program took longer; it was killed.
        """
        request = json.dumps(
            {"arguments": arguments, "env": {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}}
        ).encode()
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            files = [given, out if stdout is None else stdout, err if stderr is None else stderr]
            channel = self._started()
            channel.settimeout(timeout)
            try:
                descriptors = [file if isinstance(file, int) else file.fileno() for file in files]
                socket.send_fds(channel, [len(request).to_bytes(_LENGTH)], descriptors)
                channel.sendall(request)
                status = int.from_bytes(_exactly(channel, _LENGTH), signed=True)
            except BaseException:
                self._stop()
                raise
            texts = [_text_of(file) for file in (out, err)]
        return subprocess.CompletedProcess(arguments, status, *texts)

    def _started(self) -> socket.socket:
        if self._channel is None:
            self._channel, theirs = socket.socketpair()
            with theirs:
                self._interpreter = subprocess.Popen(
                    [sys.executable, "-W", "error", __file__, str(theirs.fileno()), self._preload],
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                    start_new_session=True,
                )
        return self._channel

    def _stop(self) -> None:
        if self._channel is not None and self._interpreter is not None:
            self._channel.close()
            os.killpg(self._interpreter.pid, signal.SIGKILL)
            self._interpreter.wait()
        self._channel = self._interpreter = None


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _exactly(channel: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = channel.recv(count - len(received))
        if not piece:
            raise ConnectionError("the interpreter has ended")
        received += piece
    return received


def _forked(channel: socket.socket) -> list[str]:
    """In each forked process, the arguments of its program; the interpreter itself forks until its channel closes."""
    while True:
        length, descriptors, _, _ = socket.recv_fds(channel, _LENGTH, 3)
        if not length:
            os._exit(0)
        request = json.loads(_exactly(channel, int.from_bytes(length)))
        with warnings.catch_warnings():
            # From 3.12 on, of the threads that wait for work in the libraries; those restart them after a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            channel.close()
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            os.environ.clear()
            os.environ.update(request["env"])
            return list(request["arguments"])
        for descriptor in descriptors:
            os.close(descriptor)
        _, status = os.waitpid(child, 0)
        channel.sendall(os.waitstatus_to_exitcode(status).to_bytes(_LENGTH, signed=True))


def _run(kind: str, *arguments: str) -> None:
    """As the interpreter does it; what this raises ends the process as usual."""
    if kind == "-c":
        sys.argv = ["-c", *arguments[1:]]
        sys.path[0] = ""
        sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(arguments[0], "<string>", "exec"), vars(sys.modules["__main__"]))
    elif kind == "-m":
        sys.argv = list(arguments)
        sys.path[0] = str(Path.cwd())
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *arguments]
        sys.path[0] = str(Path(kind).parent)
        runpy.run_path(kind, run_name="__main__")


def _leave() -> None:
    """The last that the interpreter calls: to take the libraries apart would need half a second, and show nothing."""
    sys.stdout.flush()
    sys.stderr.flush()
    if status is not None:
        os._exit(status)


if __name__ == "__main__":
    status: int | None = None
    atexit.register(_leave)
    exec(sys.argv[2], {})
    gc.freeze()  # so that no forked process copies the pages of all objects when it collects garbage
    try:
        _run(*_forked(socket.socket(fileno=int(sys.argv[1]))))
        status = 0
    except SystemExit as exc:
        if exc.code is None or isinstance(exc.code, int):
            status = exc.code or 0
        raise
