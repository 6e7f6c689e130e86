"""Small GGUF headers, written by hand from the description of the format."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

U32, F32, STRING, ARRAY = 4, 6, 8, 9

SHAPE: dict[str, Any] = {
    "general.architecture": "llama",
    "general.name": "Novelist",
    "llama.context_length": 4096,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 128,
    "llama.block_count": 2,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value(content: Any) -> bytes:
    if isinstance(content, str):
        return struct.pack("<I", STRING) + text(content)
    if isinstance(content, float):
        return struct.pack("<If", F32, content)
    if isinstance(content, int):
        return struct.pack("<II", U32, content)
    kind = STRING if content and isinstance(content[0], str) else U32
    items = b"".join(text(x) if kind == STRING else struct.pack("<I", x) for x in content)
    return struct.pack("<IIQ", ARRAY, kind, len(content)) + items


def gguf(entries: dict[str, Any] | None = None, *, version: int = 3, weights: int = 0) -> bytes:
    """A file with these entries and ``weights`` bytes of nothing behind them."""
    entries = SHAPE if entries is None else entries
    head = b"GGUF" + struct.pack("<IQQ", version, 0, len(entries))
    return head + b"".join(text(key) + value(content) for key, content in entries.items()) + bytes(weights)


def put(path: Path, data: bytes | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gguf() if data is None else data)
    return path
