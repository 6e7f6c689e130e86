"""Rules about the text of a branch: stop texts, banned phrases, ends of units.

Functions of the text alone. A pattern is searched with ``partial=True``: where the end of the text may be the
beginning of a match, that end is not shown yet. Knows no tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import regex

from ..prose import Scanner
from .types import FinishReason, Stop

_CONTEXT = 64  # characters of earlier text from which a sentence is recognized


@lru_cache(maxsize=64)
def stop_pattern(strings: tuple[str, ...]) -> regex.Pattern[str] | None:
    """Return a pattern that finds the first of ``strings``, the longest of several; None for none."""
    longest_first = sorted(filter(None, strings), key=len, reverse=True)
    return regex.compile("|".join(map(regex.escape, longest_first))) if longest_first else None


class Ending(NamedTuple):
    """How a branch ends."""

    reason: FinishReason
    stop_text: str | None = None


class StopRules:
    """Looks for the stop texts and the unit of a stop rule in a text that grows.

    Looks at ``text`` from ``floor`` on; ``before`` is the text in front of it.
    """

    def __init__(self, stop: Stop, text: str, floor: int, before: str = "") -> None:
        self._stop, self._pattern = stop, stop_pattern(stop.strings)
        self._kept = tuple(filter(None, stop.after_any))
        self._scanner: Scanner | None = None
        if stop.boundary is not None:
            context = (before + text[:floor])[-_CONTEXT:]
            self._scanner = Scanner(stop.boundary, floor - len(context))
            self._scanner.feed(context)
            self._scanner.mark()
            self._scanner.feed(text[floor:])
        self.watch = bool(self._pattern or self._scanner or self._kept)

    def judge(
        self, unshown: str, new: str, place: int, may_end: bool, written: int, loose: int | None = None
    ) -> tuple[int, Ending | None]:
        """Return how many characters of ``unshown`` may be shown, and whether the branch ends after them.

        Of several rules the one that keeps least. The count is below 0 where more was shown than may be.

        Args:
            unshown: the end of the text, of which the last token has added ``new``.
            place: characters of the text before it.
            may_end: whether the branch has the tokens that it is to have at least; ``written`` are there.
            loose: characters of ``unshown`` from which on the text may yet be taken back otherwise.
        """
        stop, hold, ends = self._stop, len(unshown) if loose is None else loose, list[tuple[int, Ending]]()
        if self._pattern is not None:
            match = self._pattern.search(unshown, partial=True)
            if match is not None and not match.partial:
                keep = match.end() if stop.include_string else match.start()
                ends.append((keep, Ending(FinishReason.STOP, match[0])))
            elif hold < len(unshown):  # what is before may become a stop text in another way
                match = self._pattern.search(unshown[: max(hold, 0)], partial=True)
            if match is not None and match.partial:
                hold = min(hold, match.start())
        if self._scanner is not None and stop.boundary is not None:
            unit_ends = self._scanner.feed(new)
            hold = min(hold, len(unshown) - self._scanner.held)
            if unit_ends and may_end:
                ends.append((unit_ends[0] - place, Ending(FinishReason(stop.boundary))))
        if self._kept and may_end and written > stop.after_min_tokens:
            found = next((text for text in self._kept if text in new), None)
            if found is not None:
                ends.append((len(unshown), Ending(FinishReason.STOP, found)))
        return min(ends, key=lambda end: end[0], default=(hold, None))


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
            start = match.start()
            match = self._pattern.search(text, start + 1, partial=True)
            if (match is None or match.partial) and len(text) > floor:  # a longer one may begin there
                match = self._pattern.fullmatch(text, start, partial=True) or match
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
