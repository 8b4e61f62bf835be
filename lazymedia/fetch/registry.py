"""Connectors by name, so that a configuration file can choose one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from lazymedia.fetch.connector import MediaConnector

C = TypeVar("C", bound="type[MediaConnector]")

_connectors: dict[str, Any] = {}


def register_connector(name: str) -> Callable[[C], C]:
    """Decorate a subclass of `MediaConnector` to make it known as ``name``.

    Raises:
        ValueError: Another class has the name.
    """

    def register(connector: C) -> C:
        if _connectors.setdefault(name, connector) is not connector:
            raise ValueError(f"a connector named {name!r} is registered already")
        return connector

    return register


def get_connector(name: str) -> type[MediaConnector]:
    """The class registered as ``name``. ``"http"`` is `MediaConnector` itself.

    Raises:
        ValueError: No such connector. The operator's fault; the text lists those there are.
    """
    connector: type[MediaConnector] | None = _connectors.get(name)
    if connector is None:
        raise ValueError(f"no connector is named {name!r}; there are {', '.join(sorted(_connectors))}")
    return connector


__all__ = ["get_connector", "register_connector"]
