"""A server of zeros in a process of its own, so that its cost is not the client's: ``/<bytes>`` or ``/<bytes>/<any>``.

Comes in: GET requests over kept connections. Goes out: its port, on standard output; then bodies. Never here: a
measurement.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

_BLOCK = memoryview(bytes(1 << 20))


def _serve(connection: socket.socket) -> None:
    received = b""
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            while b"\r\n\r\n" not in received:
                piece = connection.recv(65536)
                if not piece:
                    return
                received += piece
            head, _, received = received.partition(b"\r\n\r\n")
            left = int(head.split(b" ")[1].split(b"/")[1])
            answer = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: %d\r\n\r\n" % left
            if left <= len(_BLOCK) // 8:
                connection.sendall(answer + _BLOCK[:left])
                continue
            connection.sendall(answer)
            while left > 0:
                connection.sendall(_BLOCK[:left])
                left -= len(_BLOCK)


def _main() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            Thread(target=_serve, args=(connection,), daemon=True).start()


@contextmanager
def media_host() -> Iterator[str]:
    """The beginning of its URLs, while it runs."""
    with subprocess.Popen([sys.executable, "-m", "benchmarks.media_host"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


if __name__ == "__main__":
    _main()
