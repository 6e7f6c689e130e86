"""Spans: runs of text of one origin, with the ids of their tokens, which survive every cut and edit around
them.

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
from os.path import commonprefix
from typing import cast

from srbwriter.story.edits import Edit, hunks
from srbwriter.story.model import AUTHORS, Author, Span, TokenSizes

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
            _append(out, Span("".join(span.text for span in some), author))
            continue
        for span in some:
            if span.logprobs and all(p is None for p in span.logprobs):
                span = replace(span, logprobs=())
            _append(out, span)
    return tuple(out)


def _append(out: list[Span], span: Span) -> None:
    """Add ``span`` to ``out``, joined to the last one if they have one origin, and its lead too."""
    last = out[-1] if out else None
    if not (span.text or span.ids):
        return
    if last is None or last.author != span.author:
        out.append(span)
        return
    size = len(commonprefix((last.text[::-1], span.lead[::-1]))) if span.lead and not last.ids else 0
    if size:  # of a token that was cut twice, a part of the lead alone
        out[-1:] = [replace(last, text=last.text[:-size])] if size < len(last.text) else []
        _append(out, replace(span, text=last.text[-size:] + span.text, lead=span.lead[:-size]))
    elif bool(last.ids) != bool(span.ids) or (span.ids and (span.lead or last.vocab != span.vocab)):
        out.append(span)
    else:
        logprobs = last.logprobs or span.logprobs and (None,) * len(last.ids)
        if logprobs:
            logprobs += span.logprobs or (None,) * len(span.ids)
        out[-1] = replace(last, text=last.text + span.text, ids=last.ids + span.ids, logprobs=logprobs)


# -- cut and edit ------------------------------------------------------------------------------------


def cut(spans: Spans, at: int, sizes: TokenSizes | None = None) -> tuple[Spans, Spans]:
    """Return (the first ``at`` characters, the rest). :func:`tidy` of both together restores ``spans``.

    A token that is cut goes with the rest, whose lead is then the part of it in the first text.
    """
    for index, span in enumerate(spans):
        if at < len(span.text) or (at == 0 and span.ids):
            left, right = _cut_span(span, at, sizes) if at else ((), span)
            return tidy([*spans[:index], *left]), tidy([right, *spans[index + 1 :]])
        at -= len(span.text)
    return spans, ()


def _cut_span(span: Span, at: int, sizes: TokenSizes | None) -> tuple[Spans, Span]:
    ends, lead = token_ends(span, sizes), len(span.lead)
    left, whole = _between(span, 0, at, ends), _whole_tokens(ends, lead + at)
    size = ends[whole] - lead  # characters of the left text whose tokens are whole
    if not span.ids:
        return left, Span(span.text[at:], span.author)
    if size <= 0:
        return left, replace(span, text=span.text[at:], lead=span.lead + span.text[:at])
    return left, _part(span, whole, len(span.ids), span.text[at:], span.text[size:at])


def _part(span: Span, first: int, last: int, text: str, lead: str) -> Span:
    return Span(text, span.author, span.ids[first:last], span.vocab, span.logprobs[first:last], lead)


def token_ends(span: Span, sizes: TokenSizes | None) -> list[int]:
    """Return 0 and the place in lead and text at which each token of a span ends; [0] if unknown."""
    known = sizes(span.vocab, span.ids) if sizes is not None and span.ids else None
    ends = list(accumulate(known, initial=0)) if known is not None else [0]
    return ends if ends[-1] == len(span.lead) + len(span.text) else [0]


def _whole_tokens(ends: Sequence[int], at: int) -> int:
    """Return how many of the tokens that end at ``ends`` are whole before character ``at``."""
    whole = bisect_right(ends, at) - 1
    while whole and ends[whole - 1] == ends[whole]:  # bytes of an unfinished character go with the rest
        whole -= 1
    return whole


def edited(
    spans: Spans, edits: Sequence[Edit], inserts: Sequence[Spans], sizes: TokenSizes | None = None
) -> Spans:
    """Return ``spans`` after ``edits``, in order and disjoint, each of which inserts one of ``inserts``.

    A token that an edit cuts becomes plain text; all others keep their ids.
    """
    total = sum(len(span.text) for span in spans)
    out: list[Span] = []
    low = index = begin = 0  # the end of the last edit; a span, and where it begins
    ends: list[int] = []  # of its tokens, once they are known
    for edit, words in zip((*edits, Edit(total + 1, total + 1, "")), (*inserts, ()), strict=True):
        while index < len(spans):
            end = begin + len(spans[index].text)
            if begin >= edit.start and (low < end or begin == end):
                break
            if low < end:
                start, stop = max(low - begin, 0), min(edit.start, end) - begin
                if not ends and (start or stop < end - begin):
                    ends = token_ends(spans[index], sizes)
                out += _between(spans[index], start, stop, ends)
            elif begin == end == max(begin, low):  # tokens without a character yet
                out.append(spans[index])
            if end > edit.start:
                break
            index, begin, ends = index + 1, end, []
        out += words
        low = edit.end
    return tidy(out)


def _between(span: Span, start: int, stop: int, ends: list[int]) -> Spans:
    """Return characters ``start`` to ``stop`` of a span, with the tokens, which end at ``ends``, in it."""
    text, lead = span.text, len(span.lead)
    if start == 0 and stop == len(text):
        return (span,)
    if not span.ids:
        return plain(text[start:stop], span.author)
    first = bisect_left(ends, lead + start) if start else 0
    last = len(ends) - 1 if stop == len(text) else _whole_tokens(ends, lead + stop)
    if first >= last or ends[last] <= lead:
        return plain(text[start:stop], span.author)
    begin, behind = max(ends[first] - lead, 0), ends[last] - lead
    middle = _part(span, first, last, text[begin:behind], "" if first else span.lead)
    return (*plain(text[start:begin], span.author), middle, *plain(text[behind:stop], span.author))


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
    """Decode the spans of ``text``; bytes that cannot be decoded give plain text of ``author``."""
    if data is not None:
        try:
            return _decoded(data, text)
        except (ValueError, TypeError, RecursionError):
            pass
    return plain(text, author)


def _decoded(data: bytes, text: str) -> Spans:
    place = data.index(b"\0") + 1
    head = cast("list[tuple[int, Author, int | None, str, bool, str]]", json.loads(data[: place - 1]))
    spans: list[Span] = []
    start = 0
    for chars, author, tokens, vocab, scored, lead in head:
        if author not in AUTHORS or chars < 0:
            raise ValueError(f"no span: {author!r}")
        ids, logprobs = array("i"), array("d")
        if tokens:
            ids.frombytes(data[place : place + 4 * tokens])
            place += 4 * tokens
            if scored:
                logprobs.frombytes(data[place : place + 8 * tokens])
                place += 8 * tokens
            if len(ids) != tokens or len(logprobs) not in (0, tokens):
                raise ValueError("a token is cut off")
        known = tuple(None if math.isnan(p) else p for p in logprobs)
        spans.append(Span(text[start : start + chars], author, tuple(ids), vocab, known, lead))
        start += chars
    if start != len(text):
        raise ValueError("these are spans of another text")
    return tuple(spans)
