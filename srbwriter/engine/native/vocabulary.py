"""A look at the vocabulary of a GGUF file before llama.cpp does, which aborts over a token that comes twice.

Reads no more of the file than its key-value pairs up to the token list. What it cannot follow it leaves to
llama.cpp, which refuses such files in words.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from ..types import ModelError

_TOKENS = b"tokenizer.ggml.tokens"
_STRING, _ARRAY = 8, 9  # enum gguf_type
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_MOST = 1 << 24  # more entries than any file has; a damaged count is not walked through


def check_vocabulary(path: Path) -> None:
    """Raises ModelError when two tokens of the file are spelt alike."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            twice = _twice(data)
    except (OSError, ValueError, struct.error):
        return
    if twice is not None:
        raise ModelError(
            str(path),
            f"its vocabulary has the token {twice.decode('utf-8', 'backslashreplace')!r} twice",
            "the file is damaged: download or convert it again",
        )


def _twice(data: mmap.mmap) -> bytes | None:
    """The first token that has been seen before. Raises ValueError or struct.error for what is no GGUF."""
    pairs = struct.unpack_from("<Q", data, 16)[0]
    at = 24
    for _ in range(min(pairs, _MOST)):
        key, at = _string(data, at)
        kind = struct.unpack_from("<I", data, at)[0]
        at += 4
        if kind != _ARRAY:
            at = _after(data, at, kind)
            continue
        kind, count = struct.unpack_from("<IQ", data, at)
        at += 12
        if key == _TOKENS and kind == _STRING:
            return _repeated(data, at, count)
        at = _after_array(data, at, kind, count)
    return None


def _repeated(data: mmap.mmap, at: int, count: int) -> bytes | None:
    seen: set[bytes] = set()
    for _ in range(min(count, _MOST)):
        token, at = _string(data, at)
        if token in seen and token:  # empty ones get names of their own
            return token
        seen.add(token)
    return None


def _string(data: mmap.mmap, at: int) -> tuple[bytes, int]:
    size = struct.unpack_from("<Q", data, at)[0]
    end = at + 8 + size
    if end > len(data):
        raise ValueError("a text that ends behind the file")
    return data[at + 8 : end], end


def _after(data: mmap.mmap, at: int, kind: int) -> int:
    if kind == _STRING:
        return _string(data, at)[1]
    return at + _SIZES[kind] if kind in _SIZES else len(data)


def _after_array(data: mmap.mmap, at: int, kind: int, count: int) -> int:
    if kind != _STRING:
        return at + _SIZES.get(kind, len(data)) * count
    for _ in range(min(count, _MOST)):
        at = _string(data, at)[1]
    return at
