"""Runs of text and the tokens they came from: cutting, joining and changing without losing ids.

Pure values. A node's runs are kept *tidy* (:func:`tidy`), so that a cut followed by a join gives back
exactly what was there. Knows no vocabulary: the sizes of tokens come from a callback.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import cast

from srbwriter.story.diff import hunks
from srbwriter.story.draft import Author
from srbwriter.story.types import Run, TokenSizes

Runs = tuple[Run, ...]


def text_of(runs: Iterable[Run]) -> str:
    """The characters of ``runs``."""
    return "".join(run.text for run in runs)


def plain(text: str, author: Author) -> Runs:
    """One run without tokens; nothing for no text."""
    return (Run(text, author),) if text else ()


def tidy(runs: Iterable[Run]) -> Runs:
    """The same text in its one shortest form: neighbours of one origin are one run."""
    out: list[Run] = []
    for run in runs:
        if not run.text and not run.ids:
            continue
        if run.logprobs is not None and all(p is None for p in run.logprobs):
            run = replace(run, logprobs=None)
        if out:
            fused = _fuse(out, run)
            if fused:
                continue
        out.append(run)
    return tuple(out)


def _fuse(out: list[Run], run: Run) -> bool:
    """Add ``run`` to the last of ``out`` if they are one; takes back a lead that a cut left behind."""
    last = out[-1]
    if last.author != run.author:
        return False
    if run.lead and last.ids is None and last.text.endswith(run.lead):
        out.pop()
        whole = replace(run, text=run.lead + run.text, lead="")
        rest = last.text[: len(last.text) - len(run.lead)]
        if rest:
            out.append(replace(last, text=rest))
        if not (out and _fuse(out, whole)):
            out.append(whole)
        return True
    if last.ids is None and run.ids is None:
        out[-1] = replace(last, text=last.text + run.text)
        return True
    if last.ids is None or run.ids is None or run.lead or last.vocab != run.vocab:
        return False
    out[-1] = replace(
        last,
        text=last.text + run.text,
        ids=last.ids + run.ids,
        logprobs=_join_logprobs(last, run),
    )
    return True


def _join_logprobs(a: Run, b: Run) -> tuple[float | None, ...] | None:
    if a.logprobs is None and b.logprobs is None:
        return None
    left = a.logprobs if a.logprobs is not None else (None,) * len(a.ids or ())
    right = b.logprobs if b.logprobs is not None else (None,) * len(b.ids or ())
    return left + right


def cut(runs: Runs, at: int, sizes: TokenSizes | None = None) -> tuple[Runs, Runs]:
    """(the first ``at`` characters, the rest). Joined again they give back the same tokens."""
    return cut_at(runs, at, seam(runs, at, sizes))


@dataclass(frozen=True, slots=True)
class Seam:
    """Where runs part: in front of run ``index``, or through it.

    Through it means after ``tokens`` whole tokens and ``broken`` characters beyond them.
    """

    index: int
    tokens: int = 0
    broken: int = 0


def seam(runs: Runs, at: int, sizes: TokenSizes | None) -> Seam:
    """Where ``runs`` part if they are cut at character ``at``."""
    index, inside = _find(runs, at)
    if not inside or runs[index].ids is None:
        return Seam(index, 0, inside)
    run = runs[index]
    ends = _ends(run, sizes)
    target = len(run.lead) + inside
    whole = max((n for n, end in enumerate(ends) if end <= target), default=0)
    while whole and ends[whole - 1] == ends[whole]:  # bytes of an unfinished character go with the rest
        whole -= 1
    broken = target - ends[whole]
    return Seam(index, whole, broken) if broken < inside else Seam(index, 0, inside)


def seam_of(head: Runs, joined: Runs) -> Seam:
    """The seam at which ``joined`` has to be cut to give back ``head``."""
    if joined[: len(head)] == head:
        return Seam(len(head))
    index = next(i for i, run in enumerate(head) if joined[i] != run)
    part = head[index:]
    tokens = sum(len(run.ids or ()) for run in part)
    if not tokens:
        return Seam(index, 0, len(text_of(part)))
    return Seam(index, tokens, len(part[-1].text) if part[-1].ids is None else 0)


def cut_at(runs: Runs, at: int, where: Seam) -> tuple[Runs, Runs]:
    """As :func:`cut`, at a seam found before."""
    inside = at - sum(len(run.text) for run in runs[: where.index])
    if where.index < len(runs) and 0 <= inside <= len(runs[where.index].text) and (inside or where.tokens):
        left, right = _cut_run(runs[where.index], inside, where)
        return tidy([*runs[: where.index], *left]), tidy([*right, *runs[where.index + 1 :]])
    if inside:  # the seam is of other runs than these
        return cut_at(runs, at, seam(runs, at, None))
    return runs[: where.index], runs[where.index :]


def _find(runs: Runs, at: int) -> tuple[int, int]:
    """(the run that holds character ``at``, how far inside it); inside is 0 between runs."""
    for index, run in enumerate(runs):
        if at < len(run.text) or (at == 0 and run.ids):
            return index, at
        at -= len(run.text)
    return len(runs), 0


def _cut_run(run: Run, at: int, where: Seam) -> tuple[Runs, Runs]:
    left, right = run.text[:at], run.text[at:]
    if run.ids is None:
        return (replace(run, text=left),), (replace(run, text=right),)
    if where.tokens == 0:
        return (Run(left, run.author),), (replace(run, text=right, lead=run.lead + left),)
    whole = at - where.broken
    first = _part(run, 0, where.tokens, run.text[:whole], run.lead)
    broken = run.text[whole:at]
    return (first, *plain(broken, run.author)), (_part(run, where.tokens, len(run.ids), right, broken),)


def _ends(run: Run, sizes: TokenSizes | None) -> list[int]:
    """Where tokens end, in characters of ``lead + text``; [0] if that is not known."""
    known = sizes(run.vocab, run.ids) if sizes is not None and run.ids else None
    ends = list(accumulate(known, initial=0)) if known is not None else [0]
    return ends if ends[-1] == len(run.lead) + len(run.text) else [0]


def _part(run: Run, start: int, stop: int, text: str, lead: str) -> Run:
    logprobs = run.logprobs[start:stop] if run.logprobs is not None else None
    return replace(run, text=text, ids=(run.ids or ())[start:stop], logprobs=logprobs, lead=lead)


def change(runs: Runs, text: str, author: Author, sizes: TokenSizes | None = None) -> Runs:
    """``runs`` with their text made ``text``; whatever did not change keeps its tokens."""
    for start, stop, words in reversed(hunks(text_of(runs), text)):
        before, after = cut(runs, start, sizes)[0], cut(runs, stop, sizes)[1]
        runs = tidy([*before, *plain(words, author), *_whole_tokens(after, sizes)])
    return runs


def _whole_tokens(runs: Runs, sizes: TokenSizes | None) -> Runs:
    """``runs`` without a lead: a token that lost its beginning becomes plain text."""
    if not runs or not runs[0].lead:
        return runs
    run = runs[0]
    ends = _ends(run, sizes)
    usable = [n for n, end in enumerate(ends) if end >= len(run.lead) and n < len(run.ids or ())]
    if len(ends) == 1 or not usable:
        return tidy([Run(run.text, run.author), *runs[1:]])
    skip = usable[0]
    size = ends[skip] - len(run.lead)
    rest = _part(run, skip, len(run.ids or ()), run.text[size:], "")
    return tidy([*plain(run.text[:size], run.author), rest, *runs[1:]])


def prompt_runs(runs: Iterable[Run]) -> Runs:
    """``runs`` of a path as an engine may use them: every lead stands at the end of one plain run."""
    out: list[Run] = []
    for run in runs:
        if run.ids is not None and not run.vocab:  # ids of a vocabulary nobody knows
            run = Run(run.text, run.author)
        if run.ids is not None and run.lead:
            last = out[-1] if out else None
            fits = last is not None and last.ids is None and last.text.endswith(run.lead)
            if not fits:
                run = Run(run.text, run.author)
        if out and out[-1].ids is None and run.ids is None:
            out[-1] = replace(out[-1], text=out[-1].text + run.text)
        elif run.text or run.ids:
            out.append(run)
    return tuple(out)


def encode(runs: Runs, author: Author) -> bytes | None:
    """Everything about ``runs`` except their text; None for plain text of ``author``."""
    if not runs or (len(runs) == 1 and runs[0].ids is None and runs[0].author == author):
        return None
    head = [
        [
            len(run.text),
            run.author,
            None if run.ids is None else len(run.ids),
            run.vocab,
            run.logprobs is not None,
            run.lead,
        ]
        for run in runs
    ]
    parts = [json.dumps(head, separators=(",", ":")).encode(), b"\0"]
    for run in runs:
        parts.append(array("i", run.ids or ()).tobytes())
        if run.logprobs is not None:
            parts.append(array("d", [math.nan if p is None else p for p in run.logprobs]).tobytes())
    return b"".join(parts)


def decode(data: bytes | None, text: str, author: Author) -> Runs:
    """The runs of ``text``; ids that cannot be understood are left out, the text never is."""
    if data is None:
        return plain(text, author)
    try:
        runs = _decode(data, text)
    except (ValueError, TypeError):
        return plain(text, author)
    return runs if text_of(runs) == text else plain(text, author)


def _decode(data: bytes, text: str) -> Runs:
    end = data.index(b"\0")
    head = cast(Sequence[tuple[int, Author, int | None, str, bool, str]], json.loads(data[:end]))
    place, start, runs = end + 1, 0, list[Run]()
    for length, author, count, vocab, scored, lead in head:
        ids: tuple[int, ...] | None = None
        logprobs: tuple[float | None, ...] | None = None
        if count is not None:
            ids = tuple(array("i", data[place : place + 4 * count]))
            place += 4 * count
        if scored:
            stored = array("d", data[place : place + 8 * (count or 0)])
            logprobs = tuple(None if math.isnan(p) else p for p in stored)
            place += 8 * (count or 0)
        runs.append(Run(text[start : start + length], author, ids, vocab, logprobs, lead))
        start += length
    return tuple(runs)
