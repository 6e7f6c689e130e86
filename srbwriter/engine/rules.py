"""What is looked for in the text of a branch: stop texts, banned phrases, ends of units.

Functions of the text alone. A pattern is searched with ``partial=True``: where the end of the text may be the
beginning of a match, that end is not shown yet. Knows no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import regex

from ..prose import LineScanner, ParagraphScanner, Scanner, SentenceScanner

SCANNERS: Mapping[str, Callable[[int], Scanner]] = {
    "line": LineScanner, "sentence": SentenceScanner, "paragraph": ParagraphScanner
}  # fmt: skip


@lru_cache(maxsize=64)
def stop_pattern(strings: tuple[str, ...]) -> regex.Pattern[str] | None:
    """Return a pattern that finds the first of ``strings``, the longest of several; None for none."""
    longest_first = sorted(filter(None, strings), key=len, reverse=True)
    return regex.compile("|".join(map(regex.escape, longest_first))) if longest_first else None


_QUOTES = str.maketrans("‘’‚‛“”„‟", "''''\"\"\"\"")
_LIKE = {" ": r"\s+", "'": "['‘’‚‛]", '"': '["“”„‟]'}
_WORD_START = r"(?<![^\W_])"


class Phrases:
    """Banned phrases, in one pattern.

    Small and capital letters are alike, so are straight and curly quotation marks, and any run of whitespace
    is one space. A phrase that begins with a letter or digit begins where a word does (``he said`` is not
    found in *she said*); where it ends does not matter (``shiver`` is found in *shivers*).
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        self._phrases = {_folded(phrase): phrase for phrase in phrases if phrase.strip()}
        self.reach = 4 * max(map(len, self._phrases)) + 1  # characters in which one may have begun
        # Beginnings in common are compared once: 400 phrases take 17 µs a token, side by side 31.
        tree: dict[str, Any] = {}
        for phrase in self._phrases:
            branch = tree
            parts = [_LIKE.get(char) or regex.escape(char) for char in phrase]
            for part in (_WORD_START if phrase[0].isalnum() else "", *parts):
                branch = branch.setdefault(part, {})
            branch["end"] = {}
        self._pattern = regex.compile(_alternatives(tree), regex.IGNORECASE)

    def find(self, text: str, start: int, floor: int) -> regex.Match[str] | None:
        """Return the first match from ``start`` on that ends behind ``floor``, or may do so."""
        match = self._pattern.search(text, max(start, 0), partial=True)
        while match is not None and not match.partial and match.end() <= floor:
            match = self._pattern.search(text, match.start() + 1, partial=True)
        return match

    def name(self, found: str) -> str:
        """Return the phrase that ``found`` is a match of."""
        return self._phrases.get(_folded(found), found)


@lru_cache(maxsize=64)
def compile_phrases(phrases: tuple[str, ...]) -> Phrases | None:
    """Return these phrases compiled, shared by all branches; None where all of them are blank."""
    return Phrases(phrases) if any(map(str.strip, phrases)) else None


def _folded(text: str) -> str:
    return " ".join(text.lower().translate(_QUOTES).split())


def _alternatives(tree: Mapping[str, Any]) -> str:
    """Return a pattern for all that ``tree`` spells, the longest first."""
    ways = [part + _alternatives(rest) for part, rest in tree.items() if part != "end"]
    if not ways:
        return ""
    return f"(?:{'|'.join(ways)})" + ("?" if "end" in tree else "")
