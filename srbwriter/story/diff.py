"""Edits of a text: find them between two texts, place them where they cost least, assign them to nodes.

If the edit is known, texts are not compared: only the characters around the edit are read. Nothing here knows
spans, or how a node is changed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from srbwriter.story.model import NodeId
from srbwriter.unspaced import CHARACTER

_WORD = re.compile(r"\w+|\W+")
_ALIKE = 6
"""Two hunks have at least this many equal words and separators between them."""


Read = Callable[[int, int], str]
"""Returns the characters between two places of a text."""


class Edit(NamedTuple):
    """Replaces characters ``start`` to ``end`` of a text by ``text``."""

    start: int
    end: int
    text: str


class Piece(NamedTuple):
    """The part of a path's text that a node holds: characters ``begin`` to ``end``."""

    node: NodeId
    begin: int
    end: int
    model: bool  # whether a model wrote it
    writing: bool = False  # whether the model still writes at its end
    chapter: bool = False  # a chapter begins with it


def same_start(a: str, b: str) -> int:
    """Return the length of the common prefix of ``a`` and ``b``."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # binary search: no character is compared twice as equal
        middle = (low + high + 1) // 2
        if b.startswith(a[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def same_end(a: str, b: str, most: int) -> int:
    """Return the length of the common suffix of ``a`` and ``b``, at most ``most``."""
    low, high = 0, max(0, min(len(a), len(b), most))
    while low < high:
        middle = (low + high + 1) // 2
        if b.endswith(a[len(a) - middle : len(a) - low], 0, len(b) - low):
            low = middle
        else:
            high = middle - 1
    return low


def changed(old: str, new: str) -> tuple[int, int, int]:
    """Return (start, stop, end): ``old[start:stop]`` became ``new[start:end]``."""
    start = same_start(old, new)
    tail = same_end(old, new, min(len(old), len(new)) - start)
    return start, len(old) - tail, len(new) - tail


def edit_between(old: str, new: str) -> Edit:
    """Return the one edit that turns ``old`` into ``new``, between their common prefix and suffix."""
    start, stop, end = changed(old, new)
    return Edit(start, stop, new[start:end])


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Return ``text`` after ``edits``, which are in order and disjoint, with places of ``text``."""
    parts, at = list[str](), 0
    for start, end, words in edits:
        parts += (text[at:start], words)
        at = end
    return "".join([*parts, text[at:]])


def settled(edit: Edit, read: Read) -> Edit:
    """Return ``edit`` as :func:`edit_between` would find it; ``read`` reads the text before it.

    A pure insertion or deletion may have several equivalent places; the result has the last of them.
    """
    first, last, words = edit
    head, tail, stop = changed(read(first, last), words)
    start, end, words = first + head, first + tail, words[head:stop]
    moving = words or read(start, end)
    if (end > start) == bool(words):  # a replacement has one place
        return Edit(start, end, words)
    moved, room = 0, 32
    while True:
        here = read(end + moved, end + moved + room)
        turned = moved % len(moving)
        again = moving[turned : turned + len(here)]
        if len(again) < len(here):
            again = (again + moving * (len(here) // len(moving) + 1))[: len(here)]
        same = same_start(here, again)
        moved, room = moved + same, 2 * room
        if same < len(here) or not here:
            break
    turned = moved % len(moving)
    return Edit(start + moved, end + moved, words[turned:] + words[:turned])


def hunks(old: str, text: str) -> list[Edit]:
    """Return the edits that turn ``old`` into ``text``, in order.

    Equal words are matched at their nearest place, so many small changes cost little more than one. The
    result may have more hunks than necessary.
    """
    edit = edit_between(old, text)
    return hunks_within(edit, old[edit.start : edit.end])


def hunks_within(edit: Edit, removed: str) -> list[Edit]:
    """Split ``edit``, which replaces ``removed``, into edits of the words that differ."""
    start, _, words = edit
    if not removed or not words:
        return [edit] if removed or words else []
    found: list[Edit] = []
    for before, after in _parts(_WORD.findall(removed), _WORD.findall(words)):
        if before != after:
            first, last, stop = changed(before, after)
            found.append(Edit(start + first, start + last, after[first:stop]))
        start += len(before)
    return found


def refined(edits: Sequence[Edit], read: Read) -> list[Edit]:
    """Split a single edit into edits of the words that differ, placed as a comparison would place them.

    Several edits stay as they are, without those that change nothing.
    """
    if len(edits) != 1:
        return [e for e in edits if e.end - e.start != len(e.text) or read(e.start, e.end) != e.text]
    edit = settled(edits[0], read)
    return hunks_within(edit, read(edit.start, edit.end))


def _parts(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Split ``a`` and ``b`` into corresponding parts, equal or not."""
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
    """Return the nearest places from ``i`` and ``j`` on where ``_ALIKE`` words are equal; else the ends."""
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


def sparing(edit: Edit, pieces: Sequence[Piece], read: Read) -> Edit:
    """Return a settled ``edit`` at the equivalent place that changes the least of the model's text.

    A place between two nodes is better than one inside a node, and a person's node better than the model's.
    """
    start, end, words = edit
    moving = words or read(start, end)
    if (end > start) == bool(words):
        return edit
    length, first, room = end - start, start, 32
    while first:
        here = read(max(0, first - room), first)
        moved = (start - first) % len(moving)
        again = moving[: len(moving) - moved][-len(here) :]
        if len(again) < len(here):
            again = (moving * (len(here) // len(moving) + 1) + again)[-len(here) :]
        same = same_end(here, again, len(here))
        first, room = first - same, 2 * room
        if same < len(here):
            break

    def cost(at: int) -> tuple[int, int, int]:
        until = at + length
        there = touched(pieces, at, until)
        cuts = sum(p.begin < edge < p.end for p in there if p.model for edge in (at, until))
        return sum(p.model for p in there), cuts, -at

    places = {start}
    if first < start:
        edges = {first}
        for piece in between(pieces, first, end):
            edges.update((piece.end, piece.begin - length))
        places.update(edge for edge in edges if first <= edge <= start)
    moved = start - min(places, key=cost)
    turned = len(words) - moved % (len(words) or 1)
    return Edit(start - moved, end - moved, words[turned:] + words[:turned])


def within_chapter(given: Edit, found: Edit, pieces: Sequence[Piece]) -> Edit:
    """Return ``found``, an edit equivalent to ``given`` at another place.

    Return ``given`` if a chapter begins between the two places: text typed at the end of a chapter stays in
    it.
    """
    low, high = sorted((given.start, found.start))
    if given.start < given.end or low == high:
        return found
    return given if any(p.chapter and low < p.begin <= high for p in between(pieces, low, high)) else found


def between(pieces: Sequence[Piece], start: int, stop: int) -> Sequence[Piece]:
    """Return the pieces that hold characters ``start`` to ``stop``, or end or begin there."""
    low = bisect_left(pieces, start, key=lambda piece: piece.end)
    return pieces[low : bisect_right(pieces, stop, key=lambda piece: piece.begin)]


def touched(pieces: Sequence[Piece], start: int, stop: int) -> list[Piece]:
    """Return the pieces that an edit of characters ``start`` to ``stop`` changes.

    An insertion between nodes goes into the node that begins a chapter there; else into the first that a
    person wrote, or into the last that no model is writing, since text can only be added at the end of that
    one.
    """
    there = between(pieces, start, stop)
    if start == stop and (first := next((p for p in there if p.chapter and p.begin == start), None)):
        return [first]
    within = [p for p in there if p.begin < stop and start < p.end and p.begin < p.end]
    ended = next((p for p in reversed(there) if not p.writing), there[-1])
    return within or [next((p for p in there if not p.model), ended)]


def node_edits(pieces: Sequence[Piece], parts: Iterable[Edit]) -> dict[NodeId, list[Edit]]:
    """Return ``parts`` as edits of the nodes that they touch, in the order of the path.

    New words go into the first of the nodes whose text they replace.
    """
    edits: dict[NodeId, list[Edit]] = {}
    there: list[Piece] = []
    low = -1
    for start, stop, words in parts:
        if there and there[-1].begin <= start < stop <= there[-1].end:  # of many edits most are
            node, begin, *_ = there[-1]
            edits[node].append(Edit(start - begin, stop - begin, words))
            continue
        if low < 0:
            low = bisect_left(pieces, start, key=lambda piece: piece.end)
        while pieces[low].end < start:
            low += 1
        high = low + 1
        while high < len(pieces) and pieces[high].begin <= stop:
            high += 1
        there = touched(pieces[low:high], start, stop)
        for piece in there:
            head, tail = max(start - piece.begin, 0), min(stop, piece.end) - piece.begin
            edits.setdefault(piece.node, []).append(Edit(head, tail, words))
            words = ""
    return edits


def in_one(first: Edit, second: Edit, text: str) -> Edit:
    """Join ``first`` and ``second`` into one edit; ``text`` is the text between the two."""
    behind = first.start + len(first.text)
    start, end = min(first.start, second.start), max(behind, second.end)
    words = text[start : second.start] + second.text + text[second.end : end]
    return Edit(start, end - len(first.text) + first.end - first.start, words)


def joined(edits: Sequence[Edit], text: str) -> Edit:
    """Join ``edits`` of ``text`` into one."""
    start, end = edits[0].start, edits[-1].end
    inside = [Edit(edit.start - start, edit.end - start, edit.text) for edit in edits]
    return Edit(start, end, apply_edits(text[start:end], inside))


def whole_words(old: str, start: int, stop: int, words: str, least: int) -> tuple[int, int, str]:
    """Extend a hunk to whole words, but not to before ``least``.

    Two different words may share letters at their ends; those letters are replaced too.
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
    """Whether ``text`` has a letter or a digit."""
    return any(character.isalnum() for character in text)
