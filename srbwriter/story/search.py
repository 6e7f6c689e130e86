"""Search in a story: quotes, dashes, spaces, composition and case are alike in the text and in the query."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import regex

from srbwriter.story.model import Hit, State
from srbwriter.unspaced import CHARACTER

if TYPE_CHECKING:
    from srbwriter.story.tree import Tree

MARK_START, MARK_END = "\x02", "\x03"
_AROUND = 40  # characters of an excerpt before the first match
_EXCERPT = 120
_PART = re.compile(r'"([^"]*)"|(\S+)')
_ALIKE: dict[str, str] = {
    **dict.fromkeys("‘’‚‛`´′", "'"),
    **dict.fromkeys("“”„‟«»″", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("\t\u00a0\u2002\u2003\u2009\u200a\u202f", " "),
    **dict.fromkeys("\u00ad\u200b", ""),
}
_TABLE = str.maketrans(_ALIKE)
_CLUSTER = regex.compile(r"\X")  # a letter with its accents, or the parts of a Hangul syllable


def alike(text: str, case: bool = False) -> str:
    """Return ``text`` in the form in which searches compare it; its length may differ."""
    if text.isascii():
        text = text.translate(_TABLE)
        return text if case else text.lower()
    text = unicodedata.normalize("NFC", text).translate(_TABLE)
    return text if case else unicodedata.normalize("NFC", text.replace("İ", "i").casefold())


@lru_cache(maxsize=2)  # the words are typed letter by letter
def _lines(text: str, case: bool) -> list[tuple[str, str]]:
    return [(line, alike(line, case)) for line in text.split("\n")]


def matches(text: str, words: str, *, case: bool = False, whole: bool = False) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence of ``words``, a part of a line, in ``text``.

    ``whole``: only where no letter, digit or underscore comes directly before or after.
    """
    wanted = alike(words, case)
    pattern = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)" if whole else re.escape(wanted))
    at = 0
    for line, folded in _lines(text, case) if wanted else ():
        if wanted in folded:
            yield from ((at + start, at + end) for start, end in _places(line, folded, pattern, case))
        at += len(line) + 1


def _places(line: str, folded: str, pattern: re.Pattern[str], case: bool) -> Iterator[tuple[int, int]]:
    """Yield where ``pattern`` matches ``folded``, as places of ``line``; no match ends within a letter."""
    if line.isascii():
        yield from (found.span() for found in pattern.finditer(folded))
        return
    parts, begins, at = list[str](), dict[int, int](), 0  # place in what is compared → place in the line
    for cluster in _CLUSTER.finditer(line):
        part = alike(cluster[0], case)
        if part:
            begins[at] = cluster.start()
        parts.append(part)
        at += len(part)
    begins[at] = len(line)
    for found in pattern.finditer("".join(parts)):
        if found.start() in begins and found.end() in begins:
            yield begins[found.start()], begins[found.end()]


def search(tree: Tree, query: str, limit: int, with_bin: bool) -> list[Hit]:
    """Return nodes that contain all words of ``query`` (the last may be unfinished; ``"…"`` is a phrase)."""
    terms = [alike(phrase or word).strip() for phrase, word in _PART.findall(query)]
    terms = [term for term in terms if any(map(str.isalnum, term))]
    if not terms:
        return []
    unfinished = query[-1] not in ' "' and len(terms[-1]) > 1
    patterns = [_pattern(term, unfinished and term is terms[-1]) for term in terms]
    hits: list[Hit] = []
    for node in sorted(tree, key=lambda node: -node.id):
        if not node.text or node.state == State.ABSORBED:
            continue
        folded = alike(node.text)
        found = [pattern.search(folded) for pattern in patterns]
        if not all(found):
            continue
        living = tree.is_living(node.id)
        if living or with_bin:
            hits.append(Hit(node.id, _excerpt(node.text, folded, patterns), 0.0, not living))
            if len(hits) == limit:
                break
    return hits


def _pattern(term: str, unfinished: bool) -> re.Pattern[str]:
    """Return a pattern for whole words; in scripts without spaces, for any characters."""
    words = r"\s+".join(map(re.escape, term.split()))
    before = "" if CHARACTER.match(term[0]) or not term[0].isalnum() else r"(?<!\w)"
    behind = "" if unfinished or CHARACTER.match(term[-1]) or not term[-1].isalnum() else r"(?!\w)"
    return re.compile(f"{before}{words}{behind}")


def _excerpt(text: str, folded: str, patterns: list[re.Pattern[str]]) -> str:
    """Return the text around the first match, with the matches marked."""
    if len(folded) != len(text):
        text = folded
    spans = sorted(found.span() for pattern in patterns for found in pattern.finditer(folded))
    start = max(spans[0][0] - _AROUND, 0)
    end = min(start + _EXCERPT, len(text))
    parts, at = ["…" if start else ""], start
    for first, last in spans:
        if at <= first and last <= end:
            parts += (text[at:first], MARK_START, text[first:last], MARK_END)
            at = last
    return "".join([*parts, text[at:end], "…" if end < len(text) else ""]).replace("\n", " ")
