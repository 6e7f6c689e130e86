"""Search in a story: quotes, dashes, spaces, composition and case are alike in the text and in the query."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from operator import attrgetter
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


@lru_cache(maxsize=1 << 18)  # all nodes of a long story, and the lines of its text
def alike(text: str, case: bool = False) -> str:
    """Return ``text`` in the form in which searches compare it; its length may differ."""
    text = unicodedata.normalize("NFC", text).translate(_TABLE)
    return text if case else unicodedata.normalize("NFC", text.replace("İ", "i").casefold())


def matches(text: str, words: str, *, case: bool = False, whole: bool = False) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence of ``words``, a part of a line, in ``text``.

    ``whole``: only where no letter, digit or underscore comes directly before or after. No match ends within
    a letter.
    """
    wanted = alike(words, case)
    pattern = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)" if whole else re.escape(wanted))
    at = 0
    for line in text.split("\n") if wanted else ():
        if wanted in (compared := alike(line, case)):
            places = range(len(line) + 1) if line.isascii() else _places(line, case)
            for start, end in map(re.Match[str].span, pattern.finditer(compared)):
                if start in places and end in places:
                    yield at + places[start], at + places[end]
        at += len(line) + 1


def _places(line: str, case: bool) -> dict[int, int]:
    """Return where letters begin in the form in which ``line`` is compared → in the line itself."""
    places, at = dict[int, int](), 0
    for cluster in _CLUSTER.finditer(line):
        if part := alike(cluster[0], case):
            places[at] = cluster.start()
        at += len(part)
    return {**places, at: len(line)}


def search_tree(tree: Tree, query: str, limit: int = 50) -> dict[NodeId, str]:
    """Return living nodes, newest first, with words that begin as those of ``query``; ``"…"`` is a phrase.

    Each comes with its text around the first match.
    """
    terms = [alike(phrase or word).strip() for phrase, word in _PART.findall(query)]
    terms = [term for term in terms if any(map(str.isalnum, term))]
    words = [word for term in terms for word in term.split()]
    patterns = [_beginning(term) for term in terms]
    hits: dict[NodeId, str] = {}
    for node in sorted(tree, key=attrgetter("id"), reverse=True) if terms else ():
        compared = alike(node.text)
        if not all(word in compared for word in words):  # 50 times as fast as a pattern
            continue
        found = [match.start() for pattern in patterns if (match := pattern.search(compared))]
        if len(found) == len(patterns) and tree.is_living(node.id):
            text = node.text if len(compared) == len(node.text) else compared
            start = max(min(found) - _AROUND, 0)
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
