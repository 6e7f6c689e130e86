"""Edits of a text, and spans: runs of text of one origin, whose tokens survive the edits around them.

Spans are plain values; those of a node are *tidy* (:func:`tidy`). The lengths of tokens come from a callback,
since no vocabulary is known here. In the file the spans of a text are bytes: a JSON list with a row for each
span, a zero byte, and the tokens of each span in turn: ids as 32-bit integers, then logprobs as doubles.
"""

from __future__ import annotations

import json
import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, chain, groupby
from typing import NamedTuple

from srbwriter.story.model import Author, Span, TokenSizes

Spans = tuple[Span, ...]


class Edit(NamedTuple):
    """Replaces characters ``start`` to ``end`` of a text by ``text``."""

    start: int
    end: int
    text: str


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


def edit_between(old: str, new: str) -> Edit:
    """Return the one edit that turns ``old`` into ``new``, between their common prefix and suffix."""
    start = same_start(old, new)
    tail = same_start(old[start:][::-1], new[start:][::-1])
    return Edit(start, len(old) - tail, new[start : len(new) - tail])


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return ``text`` after ``edits``, which are in order and disjoint, with places of ``text``."""
    parts, at = list[str](), 0
    for start, end, words in edits:
        parts += (text[at:start], words)
        at = end
    return "".join([*parts, text[at:]])


# -- spans -------------------------------------------------------------------------------------------


def text_of(spans: Iterable[Span]) -> str:
    """Return the text of ``spans``."""
    return "".join(span.text for span in spans)


def plain(text: str, author: Author) -> Spans:
    """Return ``text`` as one span without tokens; no span for no text."""
    return (Span(text, author),) if text else ()


def fit(ids: Sequence[int]) -> bool:
    """Whether there are ids, and all of them fit into 31 bits, as in every vocabulary."""
    return len(ids) > 0 and min(ids) >= 0 and max(ids) < 2**31


def tidy(spans: Iterable[Span]) -> Spans:
    """Return ``spans`` in their shortest form: adjacent ones of the same origin are joined."""
    runs = list[list[Span]]()
    for _, same in groupby(spans, key=lambda span: (span.author, span.vocab, bool(span.ids))):
        begun = len(runs)
        for span in same:
            if len(runs) > begun and not span.lead:
                runs[-1].append(span)
            elif span.text or span.ids:
                runs.append([span])
    return tuple(map(_joined, runs))


def _joined(run: Sequence[Span]) -> Span:
    logprobs = [p for span in run for p in span.logprobs or (None,) * len(span.ids)]
    known = tuple(logprobs) if any(p is not None for p in logprobs) else ()
    ids = tuple(chain.from_iterable(span.ids for span in run))
    return replace(run[0], text=text_of(run), ids=ids, logprobs=known)


# -- edit --------------------------------------------------------------------------------------------


def edited(
    spans: Sequence[Span], edits: Iterable[Edit], sizes: TokenSizes | None = None, inserted: Spans = ()
) -> Spans:
    """Return ``spans`` after ``edits``, which are in order and disjoint.

    What an edit inserts is the writer's, or ``inserted``, which a model wrote. A token that an edit cuts
    becomes plain text; all others keep their ids.
    """
    starts = [*accumulate((len(span.text) for span in spans), initial=0)]
    out, at = list[Span](), 0
    for start, end, words in (*edits, Edit(starts[-1], starts[-1], "")):
        for index in range(bisect_right(starts, at) - 1, bisect_left(starts, start)):
            out += _part(spans[index], max(at - starts[index], 0), start - starts[index], sizes)
        if words:
            out += inserted or plain(words, "writer")
        at = end
    return tidy(out)


def part_of(spans: Sequence[Span], start: int, stop: int, sizes: TokenSizes | None = None) -> Spans:
    """Return characters ``start`` to ``stop`` of ``spans``."""
    return edited(spans, [Edit(0, start, ""), Edit(stop, len(text_of(spans)), "")], sizes)


def _part(span: Span, start: int, stop: int, sizes: TokenSizes | None) -> Spans:
    """Return characters ``start`` to ``stop`` of a span, with the tokens that are whole in it."""
    text, lead = span.text, len(span.lead)
    if start == 0 and stop >= len(text):
        return (span,)
    known = sizes(span.vocab, span.ids) if sizes is not None and span.ids else None
    ends = [*accumulate(known or (), initial=0)]  # where tokens end in lead and text
    if ends[-1] != lead + len(text):
        return plain(text[start:stop], span.author)
    first = bisect_left(ends, lead + start) if start else 0
    last = len(ends) - 1
    if stop < len(text):  # bytes of an unfinished character go with the rest
        last = bisect_left(ends, ends[bisect_right(ends, lead + stop) - 1])
    if first >= last or ends[last] <= lead:
        return plain(text[start:stop], span.author)
    begin, behind = max(ends[first] - lead, 0), ends[last] - lead
    middle = replace(
        span, text=text[begin:behind], ids=span.ids[first:last], logprobs=span.logprobs[first:last],
        lead="" if first else span.lead,
    )  # fmt: skip
    return (*plain(text[start:begin], span.author), middle, *plain(text[behind:stop], span.author))


# -- in the file -------------------------------------------------------------------------------------


def encode(spans: Spans, author: Author) -> bytes | None:
    """Encode ``spans`` without their text; None for plain text of ``author``."""
    if not spans or (len(spans) == 1 and not spans[0].ids and spans[0].author == author):
        return None
    rows = [[len(s.text), s.author, len(s.ids) or None, s.vocab, bool(s.logprobs), s.lead] for s in spans]
    parts = [json.dumps(rows, separators=(",", ":")).encode(), b"\0"]
    for span in spans:
        logprobs = [math.nan if p is None else p for p in span.logprobs]
        parts += (array("i", span.ids).tobytes(), array("d", logprobs).tobytes())
    return b"".join(parts)


def decode(data: bytes | None, text: str, author: Author) -> Spans:
    """Decode the spans of ``text``, which the checksum of its row vouches for."""
    if data is None:
        return plain(text, author)
    spans, start, place = list[Span](), 0, data.index(b"\0") + 1
    for chars, by, tokens, vocab, scored, lead in json.loads(data[: place - 1]):
        scores = place + 4 * (tokens or 0)
        ids, place = array("i", data[place:scores]), scores + 8 * (tokens or 0) * scored
        known = tuple(None if math.isnan(p) else p for p in array("d", data[scores:place]))
        spans.append(Span(text[start : start + chars], by, tuple(ids), vocab, known, lead))
        start += chars
    return tuple(spans)
