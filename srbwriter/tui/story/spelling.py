"""Spelling: which words of a line are in no word list.

The list is that of symspellpy (MIT): words of British and American English that are both in SCOWL and in
Google Books. Words in ``words.txt`` in the config folder, one per line, count as correct too.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

from srbwriter import paths

_LIST = "frequency_dictionary_en_82_765.txt"
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")


def own_file() -> Path:
    """Return the file of the writer's own words."""
    return paths.config_dir() / "words.txt"


@cache
def word_list() -> frozenset[str]:
    """Return the words of the list in lower case; read once, because it takes a moment."""
    import symspellpy  # imported only if spelling is on

    lines = files(symspellpy).joinpath(_LIST).read_text("utf-8-sig").splitlines()
    return frozenset(line.partition(" ")[0] for line in lines)


@cache
def own_words() -> frozenset[str]:
    """Return the writer's own words in lower case, cached. Raises OSError."""
    file = own_file()
    text = file.read_text("utf-8", "replace") if file.exists() else ""
    return frozenset(word.strip().casefold() for word in text.splitlines())


def read_again() -> None:
    """Read the writer's own words again. Raises OSError."""
    own_words.cache_clear()
    unknown.cache_clear()
    own_words()


def learn(word: str) -> None:
    """Add a word to the writer's own. Raises OSError."""
    file = own_file()
    before = file.read_bytes() if file.exists() else b""
    gap = b"\n" if before and not before.endswith(b"\n") else b""
    paths.write_atomic(file, before + gap + f"{word}\n".encode())
    read_again()


def word_at(line: str, column: int) -> str:
    """Return the word of ``line`` that contains or ends at ``column``; empty if there is none."""
    return next((match[0] for match in _WORD.finditer(line) if match.start() <= column <= match.end()), "")


@lru_cache(maxsize=512)  # every move of the cursor repaints lines
def unknown(line: str) -> tuple[tuple[int, int], ...]:
    """Return the spans (start, end) of the words that are in no list.

    A word with a capital counts as a name.
    """
    return tuple(match.span() for match in _WORD.finditer(line) if not _known(match[0]))


def _known(word: str) -> bool:
    plain = word.replace("\u2019", "'")
    if len(plain) == 1 or plain != plain.lower():
        return True
    return any(form in word_list() or form in own_words() for form in (plain, plain.removesuffix("'s")))
