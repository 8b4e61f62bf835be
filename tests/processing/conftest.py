"""The fixture of `tests.infos`, for the tests of this folder."""

from __future__ import annotations

from tests.infos import GetInfo, get_info

__all__ = ["GetInfo", "get_info"]
