"""Where two texts differ, in about the time it takes to read them, and which nodes that touches.

An edit of a long text is known by the texts before and after it alone. Knows nothing of runs, nor how a node
is changed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from srbwriter.story.model import NodeId
from srbwriter.unspaced import CHARACTER

_WORD = re.compile(r"\w+|\W+")
_ALIKE = 6
"""Between two changes stand at least so many words, with what is between them, that are alike."""


class Piece(NamedTuple):
    """What a node has of a path's text: characters ``begin`` to ``end``."""

    node: NodeId
    begin: int
    end: int
    model: bool  # who wrote it
    writing: bool = False  # it still does


def same_start(a: str, b: str) -> int:
    """How many characters ``a`` and ``b`` have in common at their beginnings."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # halving: what is known to be alike is never compared again
        middle = (low + high + 1) // 2
        if b.startswith(a[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def same_end(a: str, b: str, most: int) -> int:
    """How many characters, at most ``most``, ``a`` and ``b`` have in common at their ends."""
    low, high = 0, max(0, min(len(a), len(b), most))
    while low < high:
        middle = (low + high + 1) // 2
        if b.endswith(a[len(a) - middle : len(a) - low], 0, len(b) - low):
            low = middle
        else:
            high = middle - 1
    return low


def changed(old: str, new: str) -> tuple[int, int, int]:
    """(start, stop, end): of ``old`` the characters from ``start`` to ``stop`` became those to ``end``."""
    start = same_start(old, new)
    tail = same_end(old, new, min(len(old), len(new)) - start)
    return start, len(old) - tail, len(new) - tail


def hunks(old: str, new: str) -> list[tuple[int, int, str]]:
    """(start, stop, words), in order: characters ``start`` to ``stop`` of ``old`` give way to ``words``.

    Where words come again soon they are found at their nearest place, so many small changes cost little more
    than one; the hunks may be more than the least that would do.
    """
    start, stop, end = changed(old, new)
    before, after = old[start:stop], new[start:end]
    if not before or not after:
        return [(start, stop, after)] if before or after else []
    found: list[tuple[int, int, str]] = []
    for removed, inserted in _parts(_WORD.findall(before), _WORD.findall(after)):
        if removed != inserted:
            first, last, end = changed(removed, inserted)
            found.append((start + first, start + last, inserted[first:end]))
        start += len(removed)
    return found


def _parts(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[str, str]]:
    """``a`` and ``b`` in parts that belong together, alike or not."""
    i = j = 0
    while i < len(a) or j < len(b):
        if i < len(a) and j < len(b) and a[i] == b[j]:
            yield a[i], b[j]
            i, j = i + 1, j + 1
            continue
        x, y = _again(a, b, i, j)
        yield "".join(a[i:x]), "".join(b[j:y])
        i, j = x, y


def _again(a: Sequence[str], b: Sequence[str], i: int, j: int) -> tuple[int, int]:
    """The nearest places behind ``i`` and ``j`` from which on they are alike for a while; else the ends."""
    reach = 8
    while True:
        seen: dict[tuple[str, ...], int] = {}
        for y in range(j, min(j + reach, len(b) - _ALIKE + 1)):
            seen.setdefault(tuple(b[y : y + _ALIKE]), y)
        places = range(i, min(i + reach, len(a) - _ALIKE + 1))
        found = [(x, y) for x in places if (y := seen.get(tuple(a[x : x + _ALIKE]))) is not None]
        if found:
            return min(found, key=sum)
        if i + reach >= len(a) and j + reach >= len(b):
            return len(a), len(b)
        reach *= 4


def difference(old: str, text: str, pieces: Sequence[Piece]) -> list[tuple[int, int, str]]:
    """As :func:`hunks`. A word of one hunk may have come or gone in several places.

    Of those the one is chosen that spares the model's words: between two nodes rather than inside one, and in
    a person's rather than the model's.
    """
    found = hunks(old, text)
    if len(found) > 1:
        return found
    [(start, stop, _)] = found
    behind = len(text) - (len(old) - stop)
    first = start - same_end(old[:stop], text[:behind], start)

    def cost(at: int) -> tuple[int, int, int]:
        until = at + stop - start
        there = touched(pieces, at, until)
        cuts = sum(p.begin < edge < p.end for p in there if p.model for edge in (at, until))
        return sum(p.model for p in there), cuts, -at

    places = {start}
    if first < start:
        edges = {first, *(edge for p in pieces for edge in (p.end, p.begin - (stop - start)))}
        places.update(edge for edge in edges if first <= edge <= start)
    moved = start - min(places, key=cost)
    return [(start - moved, stop - moved, text[start - moved : behind - moved])]


def touched(pieces: Sequence[Piece], start: int, stop: int) -> list[Piece]:
    """The nodes that have characters ``start`` to ``stop``.

    What is inserted between nodes goes into the first there that a person wrote, or into the last that is
    not being written: to that one words can only be added at its end.
    """
    low = bisect_left(pieces, start, key=lambda piece: piece.end)
    there = pieces[low : bisect_right(pieces, stop, key=lambda piece: piece.begin)]
    within = [p for p in there if p.begin < stop and start < p.end and p.begin < p.end]
    ended = next((p for p in reversed(there) if not p.writing), there[-1])
    return within or [next((p for p in there if not p.model), ended)]


def new_texts(old: str, pieces: Sequence[Piece], parts: Sequence[tuple[int, int, str]]) -> dict[NodeId, str]:
    """The new texts of the nodes that ``parts`` touch, in the order of the path.

    New words go into the first of the nodes whose words they replace.
    """
    texts: dict[NodeId, str] = {}
    for start, stop, words in reversed(parts):
        there = touched(pieces, start, stop)
        for piece in reversed(there):
            text = texts.get(piece.node, old[piece.begin : piece.end])
            head, tail = max(start - piece.begin, 0), min(stop, piece.end) - piece.begin
            texts[piece.node] = text[:head] + (words if piece is there[0] else "") + text[tail:]
    return dict(reversed(texts.items()))


def whole_words(old: str, start: int, stop: int, words: str, least: int) -> tuple[int, int, str]:
    """A hunk made to begin and end where words do, though no earlier than ``least``.

    Letters that two different words happen to share at their ends are no reason to keep those.
    """
    if words and _in_word(words[0]) and _in_word(old[start]):
        while start > least and _in_word(old[start - 1]):
            start -= 1
            words = old[start] + words
    if words and _in_word(words[-1]) and _in_word(old[stop - 1]):
        while stop < len(old) and _in_word(old[stop]):
            words += old[stop]
            stop += 1
    return start, stop, words


def _in_word(character: str) -> bool:
    return character.isalnum() and not CHARACTER.match(character)


def lettered(text: str) -> bool:
    """Whether there is more in ``text`` than signs."""
    return any(character.isalnum() for character in text)
