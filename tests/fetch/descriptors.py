"""What this process holds open."""

from __future__ import annotations

from pathlib import Path


def open_sockets() -> int:
    """Sockets of this process, counted by what its descriptors point to."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            links.append(descriptor.readlink().name)
        except OSError:
            continue  # the one that listed them
    return sum(link.startswith("socket:") for link in links)
