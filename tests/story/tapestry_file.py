"""Notes of Tapestry Loom's Obsidian plugin."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

_MODEL = "01JWW00000000000000000MDL1"

PLUGIN: dict[str, Any] = {
    "identifier": "01JWW0000000000000000000ID",
    "models": {_MODEL: {"label": "base-8b", "color": "#ff9b5a"}, "unused": {"label": "other"}},
    "modelNodes": {_MODEL: ["B", "C"]},
    "nodes": {
        "A": {"identifier": "A", "content": "Once (upon"},
        "B": {
            "identifier": "B", "content": [[0.5, " a"], [0.25, ' "time"']], "model": _MODEL,
            "parentNode": "A", "parameters": {"temperature": "1"},
        },
        "C": {"identifier": "C", "content": " a </b>", "model": _MODEL, "parentNode": "A"},
    },
    "rootNodes": ["A"],
    "nodeChildren": {"A": ["C", "B"], "B": [], "C": []},
    "currentNode": "B",
    "bookmarks": ["C"],
}  # fmt: skip
"""The document of the plugin; its maps are objects here, and its sets lists."""


def note(document: dict[str, Any], text: str = 'Once (upon a "time"', *, compressed: bool = False) -> bytes:
    """A note of the plugin: the document as an expression in the front matter, and the text of the path."""
    script = _script(document)
    front = f"TapestryLoomWeave: {json.dumps(script)}"
    if compressed:
        packed = base64.b64encode(zlib.compress(script.encode())).decode()
        front = f"TapestryLoomWeaveCompressed: {packed}"
    return f"---\ntags: loom\n{front}\n---\n{text}".encode()


def _script(document: dict[str, Any]) -> str:
    fields: list[str] = []
    for key, value in document.items():
        if key in ("models", "nodes"):
            made = f"new Map({json.dumps([*value.items()])})"
        elif key in ("modelNodes", "nodeChildren"):
            pairs = [f"[{json.dumps(one)},new Set({json.dumps(ids)})]" for one, ids in value.items()]
            made = f"new Map([{','.join(pairs)}])"
        elif key in ("rootNodes", "bookmarks"):
            made = f"new Set({json.dumps(value)})"
        else:
            made = "undefined" if value is None else json.dumps(value)
        fields.append(f"{json.dumps(key)}:{made}")
    return "{" + ",".join(fields).replace("</", "\\u003C\\u002F") + "}"
