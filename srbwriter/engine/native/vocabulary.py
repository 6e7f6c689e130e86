"""A look at the vocabulary of a GGUF file before llama.cpp does, which aborts over some that it cannot use.

What it cannot follow it leaves to llama.cpp, which refuses such files in words.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from srbwriter.gguf import Array, Damaged, pairs

from ..types import ModelError

_KIND, _TOKENS = "tokenizer.ggml.model", "tokenizer.ggml.tokens"
_NONE = "no_vocab"


def check_vocabulary(path: Path) -> None:
    """Raises ModelError when the file has no vocabulary, or two of its tokens are spelt alike."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            for key, value in pairs(file, size):
                if key == _KIND and value == _NONE:
                    raise ModelError(
                        str(path),
                        "it has no vocabulary, so it writes no text",
                        "choose a model that generates text",
                    )
                if key == _TOKENS and isinstance(value, Array) and value.holds_texts:
                    return _check_spelling(path, value)
    except (OSError, Damaged):
        return


def _check_spelling(path: Path, tokens: Array) -> None:
    twice = _first_twice(tokens.texts())
    if twice is not None:
        raise ModelError(
            str(path),
            f"its vocabulary has the token {twice.decode('utf-8', 'backslashreplace')!r} twice",
            "the file is damaged: download or convert it again",
        )


def _first_twice(tokens: Iterable[bytes]) -> bytes | None:
    seen: set[bytes] = set()
    for token in tokens:
        if token in seen and token:  # empty ones get names of their own
            return token
        seen.add(token)
    return None
