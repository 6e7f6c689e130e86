"""The story so far: summaries of the chapters that the model's window no longer holds.

The prompt has them before the story. They are a value of the story, never a part of its text. When they are
written, :class:`~srbwriter.session.book.Book` decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from srbwriter.engine.types import Request, Stop
from srbwriter.prose import sentence_ends
from srbwriter.story.outline import Chapter
from srbwriter.story.words import words_of

from .describing import description_request

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend

PIECE_WORDS = 2_000
"""Words of a part where the text has no chapters, and of the parts of a chapter half as long again."""

CHANGED = 0.2
"""The share of a chapter's words that must be others before its summary is written anew."""

LEAST_WORDS, MOST_TOKENS = 60, 240
_HEAD = "The story so far"
_ASK = (
    "Summarize this part of a story in about a hundred words. Say who does what, and how it ends. "
    "Write in the present tense, without an introduction or comments.\n\n{text}"
)
_EXAMPLE = """\
Chapter:
Ellen rowed out before it was light. The lamp in the tower had gone dark at two, and nobody had answered the \
horn. She found the door open and the stairs wet. Upstairs her uncle's chair was warm; on the table lay the \
log, and in it, in his hand, one line: gone to meet them. She lit the lamp, and then she heard oars below.

Summary:
Ellen rows to the lighthouse before dawn, since its lamp went dark at two and nobody answers the horn. The \
door is open and the stairs are wet. Her uncle is gone; his chair is still warm, and he has written in the \
log that he went to meet somebody. She lights the lamp and hears a boat arrive.

###

Chapter:
{text}

Summary:
"""


class Part(NamedTuple):
    """A chapter, or a piece of a long one, with its place in the text."""

    title: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a part; ``paragraphs`` are those it sums up, each as a checksum and its words."""

    title: str
    text: str
    by_model: bool = True
    paragraphs: tuple[tuple[int, int], ...] = ()

    def changed(self, paragraphs: Sequence[tuple[int, int]]) -> float:
        """The share of the words of ``paragraphs`` that this summary does not know."""
        known = {check for check, _ in self.paragraphs}
        words = sum(words for _, words in paragraphs)
        return sum(words for check, words in paragraphs if check not in known) / max(words, 1)


def parts_of(text: str, outline: Iterable[Chapter]) -> list[Part]:
    """Return the chapters of ``text`` in order; long ones, and a text without any, in pieces."""
    begins = [(chapter.begin, chapter.title) for chapter in outline if chapter.title]
    if not begins or text[: begins[0][0]].strip():
        begins.insert(0, (0, ""))
    found: list[Part] = []
    for (begin, title), (end, _) in zip(begins, [*begins[1:], (len(text), "")], strict=True):
        ends = _piece_ends(text, begin, end)
        for number, (start, stop) in enumerate(zip([begin, *ends], [*ends, end], strict=True), 1):
            name = title or "The beginning"
            found.append(Part(f"{name}, part {number}" if ends else name, start, stop))
    return found


def _piece_ends(text: str, begin: int, end: int) -> list[int]:
    """Return the paragraph ends that cut a long chapter into pieces of :data:`PIECE_WORDS`."""
    ends, words, start = list[int](), 0, begin
    for match in re.finditer(r"\n+", text[begin:end]):
        words += words_of(text[start : begin + match.end()])
        start = begin + match.end()
        if words >= PIECE_WORDS:
            ends.append(start)
            words = 0
    rest = words_of(text[ends[-1] if ends else begin : end])
    if ends and rest < PIECE_WORDS // 2:
        ends.pop()
    return ends


def paragraphs_of(text: str) -> tuple[tuple[int, int], ...]:
    """Return the checksum and the number of words of each paragraph."""
    lines = (line.strip() for line in text.split("\n"))
    return tuple((crc32(line.encode("utf-8", "replace")), words_of(line)) for line in lines if line)


def fit(summaries: Sequence[Summary], engine: Backend, room: int) -> str:
    """Return the part of the prompt with the story so far, in at most ``room`` tokens.

    Where not all of it has room, every summary keeps as many of its first sentences as its share holds; the
    oldest ones are left out where even one sentence of each is too much.
    """
    told = [one for one in summaries if one.text.strip()]
    least = (len(engine.tokenize(f"{_line(one, 1)}\n")) for one in reversed(told))
    sizes = accumulate(least, initial=len(engine.tokenize(f"{_HEAD}:\n\n")))
    count = sum(1 for _ in takewhile(lambda size: size <= room, sizes)) - 1
    told = told[max(len(told) - count, 0) :]
    texts = ("\n".join([f"{_HEAD}:", *(_line(one, keep) for one in told), "", ""]) for keep in range(1, 13))
    return max(
        takewhile(lambda text: told and len(engine.tokenize(text)) <= room, texts), key=len, default=""
    )


def _line(summary: Summary, sentences: int) -> str:
    """Return the title of a summary and its first sentences, at most so many."""
    ends = [*sentence_ends(summary.text), len(summary.text)]
    return f"{summary.title}: {summary.text[: ends[min(sentences, len(ends)) - 1]].strip()}"


def summary_request(engine: Backend, text: str, *, instruct: bool) -> Request:
    """Return the request for a summary of ``text``: asked for, or after an example for other models."""
    room = engine.n_ctx - MOST_TOKENS - len(engine.tokenize(_EXAMPLE)) - 64
    ids = engine.tokenize(text)
    if len(ids) > room:  # its beginning and its end say most
        text = engine.detokenize(ids[: room // 3]) + " … " + engine.detokenize(ids[-(room * 2 // 3) :])
    text = text.strip()
    stop = Stop(max_tokens=MOST_TOKENS, min_tokens=LEAST_WORDS, strings=("\n\n", "\n#", "Chapter:"))
    example = _EXAMPLE.format(text=text).rstrip() + "\n"
    question = _ASK.format(text=text)
    return description_request(engine, question, example, stop, instruct=instruct, repeat_penalty=1.1)


def summary_of(part: Part, text: str, kept: Sequence[Summary]) -> Summary | None:
    """Return the summary of ``part``: of the same title, and of more than half the same words."""
    same = [one for one in kept if one.title == part.title]
    if not same:
        return None
    paragraphs = paragraphs_of(text[part.begin : part.end])
    best = min(same, key=lambda one: one.changed(paragraphs))
    return best if best.changed(paragraphs) <= 0.5 else None
