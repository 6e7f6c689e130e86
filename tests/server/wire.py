"""Reading what came over the wire."""

from __future__ import annotations

import json
from typing import Any

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
"""What browsers send, and programs do not."""


def lines(text: str) -> list[dict[str, Any]]:
    """Event lines, one a line."""
    return [
        json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")
    ]


def frames(wire: bytes) -> list[Any]:
    """The data of SSE frames; every frame must end in a blank line. ``[DONE]`` stays text."""
    parts = wire.decode().split("\n\n")
    assert parts.pop() == "", "the last frame does not end in a blank line"
    data = [part for part in parts if not part.startswith(":")]
    assert all(part.startswith("data: ") and "\n" not in part for part in data)
    return [
        value if (value := part.removeprefix("data: ")) == "[DONE]" else json.loads(value) for part in data
    ]
