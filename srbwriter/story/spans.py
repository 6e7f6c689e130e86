"""Cut and join spans of text without losing the ids of their tokens.

Spans are plain values. Those of a node are *tidy* (:func:`tidy`), so a cut followed by a join restores them
exactly. The lengths of tokens come from a callback, since no vocabulary is known here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from os.path import commonprefix
from typing import NamedTuple

from srbwriter.story.model import Author, Span, TokenSizes

Spans = tuple[Span, ...]


def text_of(spans: Iterable[Span]) -> str:
    """Return the text of ``spans``."""
    return "".join(span.text for span in spans)


def plain(text: str, author: Author) -> Spans:
    """Return ``text`` as one span without tokens; no span for no text."""
    return (Span(text, author),) if text else ()


def tidy(spans: Iterable[Span]) -> Spans:
    """Return ``spans`` in their shortest form: adjacent ones of the same origin are joined."""
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
    """Join ``span`` to the last of ``out`` if they have one origin, and its lead to it; say if it did."""
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
    """Return (the first ``at`` characters, the rest). :func:`tidy` of both together restores ``spans``."""
    return cut_at(spans, at, seam(spans, at, sizes))


class Seam(NamedTuple):
    """A place to cut spans: before span ``place``, or inside it.

    Inside it is after ``tokens`` whole tokens and ``broken`` more characters.
    """

    place: int
    tokens: int = 0
    broken: int = 0


def seam(spans: Spans, at: int, sizes: TokenSizes | None) -> Seam:
    """Return the seam at character ``at`` of ``spans``."""
    index, inside = _find(spans, at)
    if not inside or not spans[index].ids:
        return Seam(index, 0, inside)
    span = spans[index]
    ends = token_ends(span.vocab, span.ids, len(span.lead) + len(span.text), sizes)
    target = len(span.lead) + inside
    whole = whole_tokens(ends, target)
    broken = target - ends[whole]
    return Seam(index, whole, broken) if broken < inside else Seam(index, 0, inside)


def seam_of(head: Spans, joined: Spans) -> Seam:
    """Return the seam at which a cut of ``joined`` restores ``head``."""
    if joined[: len(head)] == head:
        # Count tokens: the continuation may begin with one that has no character yet.
        tokens = len(head[-1].ids) if head else 0
        return Seam(len(head) - 1, tokens) if tokens else Seam(len(head))
    index = next(i for i, span in enumerate(head) if joined[i] != span)
    part = head[index:]
    tokens = sum(len(span.ids) for span in part)
    if not tokens:
        return Seam(index, 0, len(text_of(part)))
    return Seam(index, tokens, 0 if part[-1].ids else len(part[-1].text))


def cut_at(spans: Spans, at: int, where: Seam) -> tuple[Spans, Spans]:
    """Cut ``spans`` as :func:`cut` does, at a known seam."""
    inside = at - sum(len(span.text) for span in spans[: where.place])
    if where.place < len(spans) and 0 <= inside <= len(spans[where.place].text) and (inside or where.tokens):
        left, right = _cut_span(spans[where.place], inside, where)
        return tidy([*spans[: where.place], *left]), tidy([*right, *spans[where.place + 1 :]])
    if inside:  # the seam is of other spans than these
        return cut_at(spans, at, seam(spans, at, None))
    return spans[: where.place], spans[where.place :]


def _find(spans: Spans, at: int) -> tuple[int, int]:
    """Return (the index of the span with character ``at``, the offset in it); 0 between spans."""
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


def token_ends(vocab: str, ids: Sequence[int], chars: int, sizes: TokenSizes | None) -> list[int]:
    """Return 0 and the offset at which each token ends in the ``chars`` characters; [0] if unknown."""
    known = sizes(vocab, ids) if sizes is not None and ids else None
    ends = list(accumulate(known, initial=0)) if known is not None else [0]
    return ends if ends[-1] == chars else [0]


def whole_tokens(ends: Sequence[int], at: int) -> int:
    """Return how many of the tokens that end at ``ends`` are whole before character ``at``."""
    whole = bisect_right(ends, at) - 1
    while whole and ends[whole - 1] == ends[whole]:  # bytes of an unfinished character go with the rest
        whole -= 1
    return whole


def _part(span: Span, start: int, stop: int, text: str, lead: str) -> Span:
    return Span(text, span.author, span.ids[start:stop], span.vocab, span.logprobs[start:stop], lead)


def fit(ids: Sequence[int]) -> bool:
    """Whether there are ids, and all of them fit into 31 bits, as in every vocabulary."""
    return len(ids) > 0 and min(ids) >= 0 and max(ids) < 2**31
