"""Encode the spans of a node as bytes, and edit encoded spans without decoding their tokens.

The bytes are a JSON list with a row for each span, a zero byte, and the tokens of each span in turn: ids as
32-bit integers, then logprobs as doubles. The text is stored separately. An edit copies the bytes of the
tokens that it does not touch, so a change in a hundred thousand places costs one pass over the rows.
"""

from __future__ import annotations

import json
import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from json.encoder import encode_basestring_ascii as _quoted
from typing import NamedTuple, cast

from srbwriter.story.diff import Edit, apply_edits, hunks, same_end
from srbwriter.story.model import AUTHORS, Author, Span, TokenSizes
from srbwriter.story.spans import Spans, text_of, token_ends, whole_tokens

_ID, _LOGPROB = 4, 8  # bytes
_NO_IDS, _NO_LOGPROBS = memoryview(b"").cast("i"), memoryview(b"").cast("d")
_UNKNOWN = array("d", [math.nan]).tobytes()


def encode(spans: Spans, author: Author) -> bytes | None:
    """Encode ``spans`` without their text; None for plain text of ``author``."""
    if not spans or (len(spans) == 1 and not spans[0].ids and spans[0].author == author):
        return None
    rows = [_row(len(s.text), s.author, len(s.ids), s.vocab, bool(s.logprobs), s.lead) for s in spans]
    parts = [f"[{','.join(rows)}]\0".encode()]
    for span in spans:
        parts += (array("i", span.ids).tobytes(), _logprob_bytes(span.logprobs))
    return b"".join(parts)


def _row(chars: int, author: str, tokens: int, vocab: str, scored: bool, lead: str) -> str:
    """Return the JSON row of a span."""
    if not (tokens or vocab or lead):
        return f'[{chars},"{author}",null,"",false,""]'
    scores = "true" if scored else "false"
    return f'[{chars},"{author}",{tokens or "null"},{_quoted(vocab)},{scores},{_quoted(lead)}]'


def _logprob_bytes(logprobs: Sequence[float | None]) -> bytes:
    """Encode logprobs as doubles; NaN for unknown ones."""
    try:
        return array("d", logprobs).tobytes()  # type: ignore[arg-type]
    except TypeError:
        return array("d", [math.nan if p is None else p for p in logprobs]).tobytes()


def decode(data: bytes | None, text: str, author: Author) -> Spans:
    """Decode the spans of ``text``; bytes that cannot be decoded give plain text of ``author``."""
    spans: list[Span] = []
    start = 0
    for row in _read(data, text, author):
        end = start + row.chars
        if not row.tokens:
            spans.append(Span(text[start:end], row.author, (), row.vocab, (), row.lead))
        else:
            ids, logprobs = tuple(row.ids), _logprobs(row.logprobs)
            spans.append(Span(text[start:end], row.author, ids, row.vocab, logprobs, row.lead))
        start = end
    return tuple(spans)


def _logprobs(values: Sequence[float]) -> tuple[float | None, ...]:
    if math.isnan(sum(values)):
        return tuple(None if math.isnan(p) else p for p in values)
    return tuple(values)


class _Run(NamedTuple):
    """A span as it is stored: the number of its characters, and the bytes of its tokens."""

    chars: int
    author: Author
    tokens: int = 0
    vocab: str = ""
    lead: str = ""
    ids: memoryview[int] = _NO_IDS
    logprobs: memoryview[float] = _NO_LOGPROBS


def _read(data: bytes | None, text: str, author: Author) -> list[_Run]:
    """Parse ``data``; one plain run by ``author`` if it is None or cannot be parsed."""
    if data is not None:
        try:
            runs = _parse(data)
            if sum(run.chars for run in runs) == len(text):
                return runs
        except (ValueError, TypeError, RecursionError):
            pass
    return [_Run(len(text), author)] if text else []


def _parse(data: bytes) -> list[_Run]:
    end = data.index(b"\0")
    head = cast(Sequence[tuple[int, Author, int | None, object, bool, object]], json.loads(data[:end]))
    place, view, runs = end + 1, memoryview(data), list[_Run]()
    for chars, author, count, vocab, scored, lead in head:
        if author not in AUTHORS or not (isinstance(vocab, str) and isinstance(lead, str)):
            raise ValueError(f"no span: {author!r}, {vocab!r}, {lead!r}")
        if min(chars, count or 0) < 0:
            raise ValueError("lengths below zero")
        if not count:
            runs.append(_Run(chars, author, 0, vocab, lead))
            continue
        ids = view[place : place + _ID * count]
        place += len(ids)
        logprobs = view[place : place + (_LOGPROB * count if scored else 0)]
        place += len(logprobs)
        if len(ids) % _ID or len(logprobs) % _LOGPROB:
            raise ValueError("a token is cut off")
        scores = logprobs.cast("d") if scored else _NO_LOGPROBS
        runs.append(_Run(chars, author, len(ids) // _ID, vocab, lead, ids.cast("i"), scores))
    return runs


# -- edits -------------------------------------------------------------------------------------------


def change(spans: Spans, text: str, author: Author, sizes: TokenSizes | None = None) -> Spans:
    """Return ``spans`` with their text changed to ``text`` by ``author``; the rest keeps its tokens."""
    before = text_of(spans)
    _, data = edit_encoded(encode(spans, author), before, hunks(before, text), author, author, sizes)
    return decode(data, text, author)


def edit_encoded(
    data: bytes | None,
    text: str,
    edits: Sequence[Edit],
    by: Author,
    author: Author,
    sizes: TokenSizes | None = None,
    becomes: Author | None = None,
) -> tuple[str, bytes | None]:
    """Return ``text`` after ``edits`` by ``by``, and its encoded spans. The edits are in order and disjoint.

    Args:
        data: the spans of ``text`` before, encoded for a node of ``author``.
        sizes: gives the lengths of tokens; a token that an edit cuts becomes plain text.
        becomes: the author of the node after the edits; None if it stays the same.
    """
    after = apply_edits(text, edits)
    out = _Output(after)
    before = _Input(_read(data, text, author), sizes, out)
    at: int | None = None  # the end of the last edit
    for start, stop, words in edits:
        before.keep(at, start)
        out.add_plain(len(words), by)
        at = stop
    before.keep(at, None)
    return after, out.encoded(becomes or author)


class _Input:
    """The spans before the edits; copies parts of them to ``out``."""

    def __init__(self, runs: Sequence[_Run], sizes: TokenSizes | None, out: _Output) -> None:
        self._runs, self._sizes, self._out = runs, sizes, out
        self._ends = list(accumulate(run.chars for run in runs))
        self._index, self._bounds = -1, (0, 0)  # the run copied last, and its range of characters
        self._measured = -1  # the run whose tokens end at _token_ends
        self._token_ends: list[int] = []
        self._gaps = False  # whether that run has tokens without a known logprob

    def keep(self, start: int | None, stop: int | None) -> None:
        """Copy characters ``start`` to ``stop`` (None: either end). A token that is cut becomes plain."""
        begin, end = self._bounds
        if start is not None and stop is not None and begin < start < stop < end:  # as most of many edits
            self._keep_part(self._index, start - begin, stop - begin, begun=True)
            return
        first, inside = self._find(start or 0)
        last, upto = (len(self._runs), 0) if stop is None else self._find(stop)
        begun = start is not None
        if first == last:
            if upto > inside:
                self._keep_part(first, inside, upto, begun)
            return
        self._keep_part(first, inside, None, begun)
        for index in range(first + 1, last):
            self._keep_part(index, 0, None, begun=False)
        if upto:
            self._keep_part(last, 0, upto, begun=False)
            self._index, self._bounds = last, (self._ends[last - 1] if last else 0, self._ends[last])

    def _find(self, at: int) -> tuple[int, int]:
        """Return (the index of the run with character ``at``, the offset of ``at`` in it)."""
        runs, ends = self._runs, self._ends
        index = bisect_right(ends, at)
        while index and ends[index - 1] == at and not runs[index - 1].chars:  # tokens without a character yet
            index -= 1
        if index == len(runs):
            return index, 0
        return index, at - (ends[index - 1] if index else 0)

    def _keep_part(self, index: int, start: int, stop: int | None, begun: bool) -> None:
        """Copy characters ``start`` to ``stop`` (None: to the end) of a run; ``begun``: after an edit."""
        run, out = self._runs[index], self._out
        chars, author, tokens, _, run_lead, *_ = run
        end = chars if stop is None else stop
        if not tokens:
            out.add_plain(end - start, author)
            return
        begun = begun and bool(start or run_lead)
        if stop is None and not begun:
            out.add_tokens(chars, run, 0, tokens, run_lead, gaps=False)
            return
        if self._measured != index:
            self._measure(index)
        ends, lead = self._token_ends, len(run_lead)
        last = len(ends) - 1 if stop is None else whole_tokens(ends, lead + end)
        first = bisect_left(ends, lead + start) if begun else 0
        if first >= last or (stop is not None and ends[last] <= lead):  # no token is left whole
            out.add_plain(end - start, author)
            return
        begin, behind = (ends[first] - lead if begun else 0), ends[last] - lead
        if begin > start:
            out.add_plain(begin - start, author)
        out.add_tokens(behind - begin, run, first, last, "" if begun else run_lead, self._gaps)
        if end > behind:
            out.add_plain(end - behind, author)

    def _measure(self, index: int) -> None:
        run = self._runs[index]
        self._measured = index
        self._token_ends = token_ends(run.vocab, run.ids, len(run.lead) + run.chars, self._sizes)
        self._gaps = math.isnan(sum(run.logprobs))


@dataclass(slots=True)
class _Plain:
    """Characters without tokens."""

    chars: int
    author: Author


@dataclass(slots=True)
class _Tokens:
    """A span with tokens, which may come from several places of the text before the edits."""

    chars: int
    author: Author
    tokens: int
    vocab: str
    lead: str
    scored: bool
    ids: list[memoryview[int]]
    logprobs: list[memoryview[float]]


class _Output:
    """The spans of the edited ``text``, added from its beginning, in the form of :func:`~.spans.tidy`."""

    def __init__(self, text: str) -> None:
        self._text, self._chars = text, 0
        self._spans: list[_Plain | _Tokens] = []

    def add_plain(self, chars: int, author: Author) -> None:
        """Add characters without tokens."""
        if not chars:
            return
        self._chars += chars
        last = self._spans[-1] if self._spans else None
        if isinstance(last, _Plain) and last.author == author:
            last.chars += chars
        else:
            self._spans.append(_Plain(chars, author))

    def add_tokens(self, chars: int, run: _Run, first: int, last: int, lead: str, gaps: bool) -> None:
        """Add tokens ``first`` to ``last`` of ``run``; ``gaps``: some of its logprobs may be unknown."""
        _, author, _, vocab, _, ids, logprobs = run
        ids, logprobs = ids[first:last], logprobs[first:last]
        if gaps and all(map(math.isnan, logprobs)):
            logprobs = _NO_LOGPROBS
        spans, scored = self._spans, len(logprobs) > 0
        self._chars += chars
        if lead and spans:
            chars, lead = self._absorb_lead(chars, lead, author)
        before = spans[-1] if spans else None
        if not lead and isinstance(before, _Tokens) and (before.author, before.vocab) == (author, vocab):
            if before.scored != scored:
                logprobs = _score(before, last - first, logprobs)
            before.chars += chars
            before.tokens += last - first
            before.ids.append(ids)
            before.logprobs.append(logprobs)
        else:
            spans.append(_Tokens(chars, author, last - first, vocab, lead, scored, [ids], [logprobs]))

    def _absorb_lead(self, chars: int, lead: str, author: Author) -> tuple[int, str]:
        """Join its lead to a token, if the plain text before ends with it; return (chars, lead)."""
        last = self._spans[-1]
        if isinstance(last, _Tokens) or last.author != author:
            return chars, lead
        end = self._chars - chars
        size = same_end(self._text[end - last.chars : end], lead, len(lead))
        last.chars -= size
        if not last.chars:
            self._spans.pop()
        return chars + size, lead[: len(lead) - size]

    def encoded(self, author: Author) -> bytes | None:
        """Encode the spans as :func:`encode` does for a node of ``author``."""
        spans = self._spans
        if not spans or (len(spans) == 1 and isinstance(spans[0], _Plain) and spans[0].author == author):
            return None
        rows: list[str] = []
        parts: list[bytes | memoryview[int] | memoryview[float]] = [b""]
        for s in spans:
            if isinstance(s, _Plain):
                rows.append(f'[{s.chars},"{s.author}",null,"",false,""]')
            else:
                rows.append(_row(s.chars, s.author, s.tokens, s.vocab, s.scored, s.lead))
                parts += s.ids
                parts += s.logprobs
        parts[0] = f"[{','.join(rows)}]\0".encode()
        return b"".join(parts)


def _score(before: _Tokens, tokens: int, logprobs: memoryview[float]) -> memoryview[float]:
    """Fill in NaN, so that ``before`` and the next ``tokens`` both have logprobs; return the latter's."""
    unknown = memoryview(_UNKNOWN * (tokens if before.scored else before.tokens)).cast("d")
    if before.scored:
        return unknown
    before.scored, before.logprobs = True, [unknown]
    return logprobs
