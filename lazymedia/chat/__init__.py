"""OpenAI-style chat requests.

* `messages`: from messages to a chat template's input and the media that they name
* `fetching`: all media of one request at once, the first failure in request order
"""

from __future__ import annotations

from lazymedia.chat.messages import MediaPart, ParsedChat, parse_chat, parse_tools

__all__ = ["MediaPart", "ParsedChat", "parse_chat", "parse_tools"]
