"""A look at the vocabulary of a GGUF file before llama.cpp does, which aborts over a token that comes twice.

What it cannot follow it leaves to llama.cpp, which refuses such files in words.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from srbwriter.gguf import Array, Damaged, pairs

from ..types import ModelError

_TOKENS = "tokenizer.ggml.tokens"


def check_vocabulary(path: Path) -> None:
    """Raises ModelError when two tokens of the file are spelt alike."""
    try:
        twice = _repeated(path)
    except (OSError, Damaged):
        return
    if twice is not None:
        raise ModelError(
            str(path),
            f"its vocabulary has the token {twice.decode('utf-8', 'backslashreplace')!r} twice",
            "the file is damaged: download or convert it again",
        )


def _repeated(path: Path) -> bytes | None:
    """The first token of the file that has been seen before."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        for key, value in pairs(file, size):
            if key == _TOKENS and isinstance(value, Array) and value.holds_texts:
                return _first_twice(value.texts())
    return None


def _first_twice(tokens: Iterable[bytes]) -> bytes | None:
    seen: set[bytes] = set()
    for token in tokens:
        if token in seen and token:  # empty ones get names of their own
            return token
        seen.add(token)
    return None
