"""Search in a story: quotes, dashes, spaces, composition and case are alike in the text and in the query."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

from srbwriter.story.model import Hit, State
from srbwriter.unspaced import CHARACTER

if TYPE_CHECKING:
    from srbwriter.story.tree import Tree

MARK_START, MARK_END = "\x02", "\x03"
_AROUND = 40  # characters of an excerpt before the first match
_EXCERPT = 120
_PART = re.compile(r'"([^"]*)"|(\S+)')
_ALIKE = str.maketrans(
    {"‘": "'", "’": "'", "‚": "'", "‛": "'", "`": "'", "´": "'", "′": "'", "“": '"', "”": '"', "„": '"',
     "‟": '"', "«": '"', "»": '"', "″": '"', "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "―": "-",
     "−": "-", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2002": " ", "\u2003": " ", "\u200a": " ",
     "\t": " ", "\u00ad": None, "\u200b": None}
)  # fmt: skip


def alike(text: str) -> str:
    """Return ``text`` in the form in which searches compare it; its length may differ."""
    if text.isascii():
        return text.translate(_ALIKE).lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).translate(_ALIKE).casefold())


def places(text: str) -> list[int]:
    """Return where each character of :func:`alike` of ``text`` comes from, and the length of ``text``."""
    found: list[int] = []
    at = 0
    while at < len(text):
        end = at + 1
        while end < len(text) and unicodedata.combining(text[end]):
            end += 1
        found += [at] * len(alike(text[at:end]))
        at = end
    return [*found, len(text)]


def matches(text: str, words: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence of ``words`` in ``text``."""
    wanted = alike(words)
    if not wanted:
        return
    folded = alike(text)
    at = folded.find(wanted)
    if at < 0:
        return
    where = places(text) if len(folded) != len(text) or not text.isascii() else None
    while at >= 0:
        end = at + len(wanted)
        if where is None:
            yield at, end
        elif len(where) == len(folded) + 1:
            stop = where[end] if end < len(where) else len(text)
            yield where[at], max(stop, where[at] + 1)
        at = folded.find(wanted, end)


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
