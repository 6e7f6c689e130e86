"""Spans of text and the tokens they came from: cutting, joining and changing without losing ids.

Pure values. A node's spans are kept *tidy* (:func:`tidy`), so that a cut followed by a join gives back
exactly what was there. Knows no vocabulary: the sizes of tokens come from a callback.
"""

from __future__ import annotations

import json
import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from os.path import commonprefix
from typing import NamedTuple, cast

from srbwriter.story.diff import Edit, hunks
from srbwriter.story.model import AUTHORS, Author, Span, TokenSizes

Spans = tuple[Span, ...]


def text_of(spans: Iterable[Span]) -> str:
    """The characters of ``spans``."""
    return "".join(span.text for span in spans)


def plain(text: str, author: Author) -> Spans:
    """One span without tokens; nothing for no text."""
    return (Span(text, author),) if text else ()


def tidy(spans: Iterable[Span]) -> Spans:
    """The same text in its one shortest form: neighbours of one origin are one span."""
    out: list[Span] = []
    for span in spans:
        if not (span.text or span.ids):
            continue
        if span.logprobs and all(p is None for p in span.logprobs):
            span = replace(span, logprobs=())
        if not (out and _fuse(out, span)):
            out.append(span)
    return tuple(out)


def _fuse(out: list[Span], span: Span) -> bool:
    """Add ``span`` to the last of ``out`` if they are one; takes back a lead that a cut left behind."""
    last = out[-1]
    if last.author != span.author:
        return False
    size = len(commonprefix((last.text[::-1], span.lead[::-1]))) if not last.ids else 0
    if size:  # of a token that was cut twice, a part of the lead alone
        out.pop()
        whole = replace(span, text=last.text[-size:] + span.text, lead=span.lead[:-size])
        if rest := last.text[:-size]:
            out.append(replace(last, text=rest))
        if not (out and _fuse(out, whole)):
            out.append(whole)
        return True
    if bool(last.ids) != bool(span.ids) or (span.ids and (span.lead or last.vocab != span.vocab)):
        return False
    logprobs = last.logprobs or span.logprobs and (None,) * len(last.ids)
    if logprobs:
        logprobs += span.logprobs or (None,) * len(span.ids)
    out[-1] = replace(last, text=last.text + span.text, ids=last.ids + span.ids, logprobs=logprobs)
    return True


def cut(spans: Spans, at: int, sizes: TokenSizes | None = None) -> tuple[Spans, Spans]:
    """(the first ``at`` characters, the rest). Joined again they give back the same tokens."""
    return cut_at(spans, at, seam(spans, at, sizes))


class Seam(NamedTuple):
    """Where spans part: in front of span ``place``, or through it.

    Through it means after ``tokens`` whole tokens and ``broken`` characters beyond them.
    """

    place: int
    tokens: int = 0
    broken: int = 0


def seam(spans: Spans, at: int, sizes: TokenSizes | None) -> Seam:
    """Where ``spans`` part if they are cut at character ``at``."""
    index, inside = _find(spans, at)
    if not inside or not spans[index].ids:
        return Seam(index, 0, inside)
    span = spans[index]
    ends = _ends(span, sizes)
    target = len(span.lead) + inside
    whole = _whole(ends, target)
    broken = target - ends[whole]
    return Seam(index, whole, broken) if broken < inside else Seam(index, 0, inside)


def seam_of(head: Spans, joined: Spans) -> Seam:
    """The seam at which ``joined`` has to be cut to give back ``head``."""
    if joined[: len(head)] == head:
        # Tokens are counted, as what is written on may begin with one that has no character yet.
        tokens = len(head[-1].ids) if head else 0
        return Seam(len(head) - 1, tokens) if tokens else Seam(len(head))
    index = next(i for i, span in enumerate(head) if joined[i] != span)
    part = head[index:]
    tokens = sum(len(span.ids) for span in part)
    if not tokens:
        return Seam(index, 0, len(text_of(part)))
    return Seam(index, tokens, 0 if part[-1].ids else len(part[-1].text))


def cut_at(spans: Spans, at: int, where: Seam) -> tuple[Spans, Spans]:
    """As :func:`cut`, at a seam found before."""
    inside = at - sum(len(span.text) for span in spans[: where.place])
    if where.place < len(spans) and 0 <= inside <= len(spans[where.place].text) and (inside or where.tokens):
        left, right = _cut_span(spans[where.place], inside, where)
        return tidy([*spans[: where.place], *left]), tidy([*right, *spans[where.place + 1 :]])
    if inside:  # the seam is of other spans than these
        return cut_at(spans, at, seam(spans, at, None))
    return spans[: where.place], spans[where.place :]


def _find(spans: Spans, at: int) -> tuple[int, int]:
    """(the span that holds character ``at``, how far inside it); inside is 0 between spans."""
    for index, span in enumerate(spans):
        if at < len(span.text) or (at == 0 and span.ids):
            return index, at
        at -= len(span.text)
    return len(spans), 0


def _cut_span(span: Span, at: int, where: Seam) -> tuple[Spans, Spans]:
    left, right = span.text[:at], span.text[at:]
    if not span.ids:
        return (replace(span, text=left),), (replace(span, text=right),)
    if where.tokens == 0:
        return (Span(left, span.author),), (replace(span, text=right, lead=span.lead + left),)
    whole = at - where.broken
    first = _part(span, 0, where.tokens, span.text[:whole], span.lead)
    broken = span.text[whole:at]
    return (first, *plain(broken, span.author)), (_part(span, where.tokens, len(span.ids), right, broken),)


def _ends(span: Span, sizes: TokenSizes | None) -> list[int]:
    """Where tokens end, in characters of ``lead + text``; [0] if that is not known."""
    known = sizes(span.vocab, span.ids) if sizes is not None and span.ids else None
    ends = list(accumulate(known, initial=0)) if known is not None else [0]
    return ends if ends[-1] == len(span.lead) + len(span.text) else [0]


def _part(span: Span, start: int, stop: int, text: str, lead: str) -> Span:
    return Span(text, span.author, span.ids[start:stop], span.vocab, span.logprobs[start:stop], lead)


def change(spans: Spans, text: str, author: Author, sizes: TokenSizes | None = None) -> Spans:
    """``spans`` with their text made ``text``; whatever did not change keeps its tokens."""
    return edited(spans, hunks(text_of(spans), text), author, sizes)


def edited(spans: Spans, edits: Sequence[Edit], author: Author, sizes: TokenSizes | None = None) -> Spans:
    """``spans`` after ``edits`` by ``author``, in order and apart; what they leave keeps its tokens.

    One pass over both: a span with many edits in it is measured once.
    """
    kept = _Kept(spans, sizes)
    parts: list[Span] = []
    at: int | None = None  # where what the last edit left begins
    for start, stop, words in edits:
        parts += kept.between(at, start)
        parts += plain(words, author)
        at = stop
    parts += kept.between(at, None)
    return tidy(_gathered(parts))


class _Kept:
    """What edits leave of ``spans``, whose tokens have ``sizes``."""

    def __init__(self, spans: Spans, sizes: TokenSizes | None) -> None:
        self._spans, self._sizes = spans, sizes
        self._ends = list(accumulate(len(span.text) for span in spans))
        self._measured: tuple[int, list[int]] = -1, []  # the span of which the ends of tokens are known

    def between(self, start: int | None, stop: int | None) -> Sequence[Span]:
        """The spans of characters ``start`` to ``stop`` (None: either end); a token that was cut is plain."""
        spans = self._spans
        first, inside = _place(spans, self._ends, start or 0)
        last, upto = (len(spans), 0) if stop is None else _place(spans, self._ends, stop)
        begun = start is not None
        if first == last:
            return self._part(first, inside, upto, begun) if upto > inside else ()
        found = list(self._part(first, inside, None, begun))
        found += spans[first + 1 : last]
        if upto:
            found += self._part(last, 0, upto, begun=False)
        return found

    def _part(self, index: int, start: int, stop: int | None, begun: bool) -> Spans:
        """Characters ``start`` to ``stop`` (None: all to the end) of a span; ``begun``: after an edit."""
        span = self._spans[index]
        begun = begun and bool(start or span.lead)
        if stop is None and not begun:
            return (span,)
        end = len(span.text) if stop is None else stop
        if not span.ids:
            return plain(span.text[start:end], span.author)
        if self._measured[0] != index:
            self._measured = index, _ends(span, self._sizes)
        ends, lead = self._measured[1], len(span.lead)
        last = len(ends) - 1 if stop is None else _whole(ends, lead + end)
        first = bisect_left(ends, lead + start) if begun else 0
        if first >= last or (stop is not None and ends[last] <= lead):  # no token is left whole
            return plain(span.text[start:end], span.author)
        begin, behind = (ends[first] - lead if begun else 0), ends[last] - lead
        whole = _part(span, first, last, span.text[begin:behind], "" if begun else span.lead)
        author = span.author
        return (*plain(span.text[start:begin], author), whole, *plain(span.text[behind:end], author))


def _whole(ends: Sequence[int], at: int) -> int:
    """How many tokens that end at ``ends`` are whole before character ``at``."""
    whole = bisect_right(ends, at) - 1
    while whole and ends[whole - 1] == ends[whole]:  # bytes of an unfinished character go with the rest
        whole -= 1
    return whole


def _place(spans: Spans, ends: Sequence[int], at: int) -> tuple[int, int]:
    """As :func:`_find`; ``ends`` are where the spans end."""
    index = bisect_right(ends, at)
    while index and ends[index - 1] == at and not spans[index - 1].text:  # tokens without a character yet
        index -= 1
    if index == len(spans):
        return index, 0
    return index, at - (ends[index - 1] if index else 0)


def _gathered(spans: Iterable[Span]) -> Iterator[Span]:
    """``spans``, where plain ones in a row by one author are one."""
    for (plain_text, author), group in groupby(spans, lambda span: (not span.ids, span.author)):
        if plain_text:
            yield Span(text_of(group), author)
        else:
            yield from group


def fit(ids: Sequence[int]) -> bool:
    """Whether there are ids, and a file can hold them all; no vocabulary has others."""
    return len(ids) > 0 and min(ids) >= 0 and max(ids) < 2**31


def encode(spans: Spans, author: Author) -> bytes | None:
    """Everything about ``spans`` except their text; None for plain text of ``author``."""
    if not spans or (len(spans) == 1 and not spans[0].ids and spans[0].author == author):
        return None
    head = [
        [len(s.text), s.author, len(s.ids) or None, s.vocab, bool(s.logprobs), s.lead] for s in spans
    ]  # fmt: skip
    parts = [json.dumps(head, separators=(",", ":")).encode(), b"\0"]
    for span in spans:
        parts.append(array("i", span.ids).tobytes())
        parts.append(_as_bytes(span.logprobs))
    return b"".join(parts)


def _as_bytes(logprobs: Sequence[float | None]) -> bytes:
    """Logprobs as an array of doubles; NaN for those that are not known."""
    try:
        return array("d", logprobs).tobytes()  # type: ignore[arg-type]
    except TypeError:
        return array("d", [math.nan if p is None else p for p in logprobs]).tobytes()


def decode(data: bytes | None, text: str, author: Author) -> Spans:
    """The spans of ``text``; ids that cannot be understood are left out, the text never is."""
    if data is None:
        return plain(text, author)
    try:
        spans = _decode(data, text)
    except (ValueError, TypeError, RecursionError):
        return plain(text, author)
    return spans if text_of(spans) == text else plain(text, author)


def _decode(data: bytes, text: str) -> Spans:
    end = data.index(b"\0")
    head = cast(Sequence[tuple[int, Author, int | None, object, bool, object]], json.loads(data[:end]))
    place, start, spans = end + 1, 0, list[Span]()
    for length, author, count, vocab, scored, lead in head:
        count = count or 0
        if author not in AUTHORS or not (isinstance(vocab, str) and isinstance(lead, str)):
            raise ValueError(f"no span: {author!r}, {vocab!r}, {lead!r}")
        if min(length, count) < 0:
            raise ValueError("lengths below zero")
        ids = array("i", data[place : place + 4 * count])
        place += 4 * count
        scores = array("d", data[place : place + 8 * count] if scored else b"")
        place += 8 * len(scores)
        logprobs: tuple[float | None, ...] = tuple(scores)
        if math.isnan(sum(scores)):
            logprobs = tuple(None if math.isnan(p) else p for p in scores)
        spans.append(Span(text[start : start + length], author, tuple(ids), vocab, logprobs, lead))
        start += length
    return tuple(spans)
