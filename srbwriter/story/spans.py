"""Spans: runs of text of one origin, with the ids of their tokens, which survive the edits around them.

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
from itertools import accumulate, groupby

from srbwriter.story.edits import Edit, hunks
from srbwriter.story.model import Author, Span, TokenSizes

Spans = tuple[Span, ...]


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
    out: list[Span] = []
    for (author, tokens), some in groupby(spans, key=lambda span: (span.author, bool(span.ids))):
        if not tokens:
            out += plain("".join(span.text for span in some), author)
            continue
        begun = len(out)
        for span in some:
            if span.logprobs and all(p is None for p in span.logprobs):
                span = replace(span, logprobs=())
            if len(out) > begun and not span.lead and out[-1].vocab == span.vocab:
                out[-1] = _joined(out[-1], span)
            else:
                out.append(span)
    return tuple(out)


def _joined(first: Span, second: Span) -> Span:
    logprobs = first.logprobs or second.logprobs and (None,) * len(first.ids)
    if logprobs:
        logprobs += second.logprobs or (None,) * len(second.ids)
    return replace(first, text=first.text + second.text, ids=first.ids + second.ids, logprobs=logprobs)


# -- edit --------------------------------------------------------------------------------------------


def edited(
    spans: Spans, edits: Sequence[Edit], inserts: Sequence[Spans], sizes: TokenSizes | None = None
) -> Spans:
    """Return ``spans`` after ``edits``, in order and disjoint, each of which inserts one of ``inserts``.

    A token that an edit cuts becomes plain text; all others keep their ids.
    """
    out, begin, index = list[Span](), 0, 0
    bounds = [0, *(place for edit in edits for place in edit[:2]), sum(len(span.text) for span in spans)]
    for kept, words in zip(range(0, len(bounds), 2), (*inserts, ()), strict=True):
        start, stop = bounds[kept : kept + 2]
        while index < len(spans):  # spans up to the next edit, of which the last may go on behind it
            end = begin + len(spans[index].text)
            if begin < stop and start < end or begin == end >= start:
                out += _between(spans[index], max(start - begin, 0), min(stop, end) - begin, sizes)
            if end > stop:
                break
            index, begin = index + 1, end
        out += words
    return tidy(out)


def part_of(spans: Spans, start: int, stop: int, sizes: TokenSizes | None = None) -> Spans:
    """Return characters ``start`` to ``stop`` of ``spans``."""
    return edited(spans, [Edit(0, start, ""), Edit(stop, len(text_of(spans)), "")], [(), ()], sizes)


def _between(span: Span, start: int, stop: int, sizes: TokenSizes | None) -> Spans:
    """Return characters ``start`` to ``stop`` of a span, with the tokens that are whole in it."""
    text, lead = span.text, len(span.lead)
    if start == 0 and stop == len(text):
        return (span,)
    if not span.ids:
        return plain(text[start:stop], span.author)
    ends = token_ends(span, sizes)
    first = bisect_left(ends, lead + start) if start else 0
    last = len(ends) - 1 if stop == len(text) else bisect_right(ends, lead + stop) - 1
    while 0 < last < len(ends) - 1 and ends[last - 1] == ends[last]:
        last -= 1  # bytes of an unfinished character go with the rest
    if first >= last or ends[last] <= lead:
        return plain(text[start:stop], span.author)
    begin, behind = max(ends[first] - lead, 0), ends[last] - lead
    middle = replace(
        span, text=text[begin:behind], ids=span.ids[first:last], logprobs=span.logprobs[first:last],
        lead="" if first else span.lead,
    )  # fmt: skip
    return (*plain(text[start:begin], span.author), middle, *plain(text[behind:stop], span.author))


def token_ends(span: Span, sizes: TokenSizes | None) -> list[int]:
    """Return 0 and the place in lead and text at which each token of a span ends; [0] if unknown."""
    known = sizes(span.vocab, span.ids) if sizes is not None and span.ids else None
    ends = list(accumulate(known, initial=0)) if known is not None else [0]
    return ends if ends[-1] == len(span.lead) + len(span.text) else [0]


def changed(spans: Spans, text: str, author: Author, sizes: TokenSizes | None = None) -> Spans:
    """Return ``spans`` with their text changed to ``text`` by ``author``; the rest keeps its tokens."""
    edits = hunks(text_of(spans), text)
    return edited(spans, edits, [plain(edit.text, author) for edit in edits], sizes)


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
        ids, logprobs = array("i"), array("d")
        if tokens:
            behind = place + 4 * tokens
            ids.frombytes(data[place:behind])
            place = behind + 8 * tokens * scored
            logprobs.frombytes(data[behind:place])
        known = tuple(None if math.isnan(p) else p for p in logprobs)
        spans.append(Span(text[start : start + chars], by, tuple(ids), vocab, known, lead))
        start += chars
    return tuple(spans)
