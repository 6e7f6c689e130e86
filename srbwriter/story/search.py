"""Search in a story: quotes, dashes, spaces, composition and case are alike in the text and in the query."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import regex

from srbwriter.story.model import NodeId
from srbwriter.unspaced import CHARACTER

if TYPE_CHECKING:
    from srbwriter.story.tree import Tree

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


def search_tree(tree: Tree, query: str, limit: int = 50) -> dict[NodeId, str]:
    """Return living nodes, newest first, with words that begin as those of ``query``; ``"…"`` is a phrase.

    Each comes with its text around the first match.
    """
    terms = [alike(phrase or word).strip() for phrase, word in _PART.findall(query)]
    patterns = [_beginning(term) for term in terms if any(map(str.isalnum, term))]
    hits: dict[NodeId, str] = {}
    for node in sorted(tree, key=lambda node: -node.id) if patterns else ():
        folded = alike(node.text)
        found = [match for pattern in patterns if (match := pattern.search(folded))]
        if len(found) == len(patterns) and tree.is_living(node.id):
            text = node.text if len(folded) == len(node.text) else folded
            start = max(min(match.start() for match in found) - _AROUND, 0)
            end = start + _EXCERPT
            around = text[start:end].replace("\n", " ")
            hits[node.id] = f"{'…' if start else ''}{around}{'…' if end < len(text) else ''}"
            if len(hits) == limit:
                break
    return hits


def _beginning(term: str) -> re.Pattern[str]:
    """Return a pattern for ``term`` where a word begins; anywhere in scripts without spaces."""
    anywhere = CHARACTER.match(term) or not term[0].isalnum()
    return re.compile(("" if anywhere else r"(?<!\w)") + r"\s+".join(map(re.escape, term.split())))
