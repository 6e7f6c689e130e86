"""Search in a story: quotes, dashes, spaces, composition and case are alike in the text and in the query."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

import regex

from srbwriter.story.model import NodeId
from srbwriter.unspaced import CHARACTER

if TYPE_CHECKING:
    from srbwriter.story.tree import Tree

_AROUND = 12  # characters of an excerpt before the first match: a list shows some 35
_EXCERPT = 120
_PART = re.compile(r'"([^"]*)"|(\S+)')
_ALIKE: dict[str, str] = {
    **dict.fromkeys("‘’‚‛`´′", "'"),
    **dict.fromkeys("“”„‟«»″", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("\t\u00a0\u2002\u2003\u2009\u200a\u202f", " "),
    **dict.fromkeys("\u00ad\u200b", ""),
}
_UNLIKE = re.compile(f"[{''.join(_ALIKE)}]")
_CLUSTER = regex.compile(r"\X")  # a letter with its accents, or the parts of a Hangul syllable


@lru_cache(maxsize=1 << 18)  # all nodes of a long story, and the lines of its text
def alike(text: str, case: bool = False) -> str:
    """Return ``text`` in the form in which searches compare it; its length may differ."""
    if text.isascii():
        return (text if case else text.lower()).replace("\t", " ").replace("`", "'")
    text = _UNLIKE.sub(lambda sign: _ALIKE[sign[0]], unicodedata.normalize("NFC", text))
    return text if case else unicodedata.normalize("NFC", text.replace("İ", "i").casefold())


def matches(
    text: str, words: str, *, case: bool = False, whole: bool = False, begun: bool = False
) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence of ``words``, a part of a line, in ``text``.

    ``whole``: only where no letter, digit or underscore comes directly before or after; ``begun``: before,
    and anywhere in scripts without spaces. No match ends within a letter.
    """
    wanted = alike(words, case)
    before = rf"(?<!\w{re.escape(wanted)})" if whole or (begun and not CHARACTER.match(wanted)) else ""
    pattern = re.compile(re.escape(wanted) + before + r"(?!\w)" * whole)
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
    letters = _CLUSTER.findall(line)
    compared = accumulate((len(alike(letter, case)) for letter in letters), initial=0)
    return dict(zip(compared, accumulate(map(len, letters), initial=0), strict=True))


def search_tree(tree: Tree, query: str, limit: int = 50) -> dict[NodeId, str]:
    """Return living nodes, newest first, with words that begin as those of ``query``; ``"…"`` is a phrase.

    Each comes with its text around the first match.
    """
    terms = [" ".join(alike(phrase or word).split()) for phrase, word in _PART.findall(query)]
    terms = [term for term in terms if any(map(str.isalnum, term))]
    hits: dict[NodeId, str] = {}
    for node in sorted(tree, key=lambda node: -node.id) if terms else ():
        text, compared = node.text, alike(node.text, False)
        if not all(term in compared for term in terms):
            continue
        found = [next(matches(text, term, begun=term[0].isalnum()), (-1, 0))[0] for term in terms]
        if min(found) >= 0 and tree.is_living(node.id):
            start = max(min(found) - _AROUND, 0)
            end = start + _EXCERPT
            around = text[start:end].replace("\n", " ")
            hits[node.id] = f"{'…' if start else ''}{around}{'…' if end < len(text) else ''}"
            if len(hits) == limit:
                break
    return hits
