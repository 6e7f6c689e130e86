"""The outline: a line for each chapter, which says what happens in it. The model reads two of them.

A line is ``title: synopsis`` or the synopsis alone, in the order of the chapters. Chapters that are not
written yet have their lines, too. It is a setting of the story beside memory and note.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from srbwriter.engine.types import Request, Stop

from .describing import description_request

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.story.outline import Chapter

_ASK = "Say in one sentence of at most twenty words what happens in this chapter of a story.\n\n{text}"
_EXAMPLE = """\
Chapter: Ellen rowed out before it was light. The lamp had gone dark at two, and nobody had answered the \
horn. She found the door open and her uncle gone, and she lit the lamp herself.
In one sentence: Ellen finds the lighthouse empty and lights the lamp herself.

Chapter: {text}
In one sentence:"""


class OutlineLine(NamedTuple):
    """A line of the outline; ``title`` may be empty."""

    title: str
    synopsis: str


def lines_of(outline: str) -> list[OutlineLine]:
    """Return the lines of an outline; a part before the first colon of at most eight words is a title."""
    found: list[OutlineLine] = []
    for line in filter(None, map(str.strip, outline.splitlines())):
        title, colon, rest = line.lstrip("#-* ").partition(":")
        titled = bool(colon) and len(title.split()) <= 8
        name, words = (title, rest) if titled else ("", line.lstrip("#-* "))
        found.append(OutlineLine(name.strip(), words.strip()))
    return found


def note_for(outline: str, chapters: Sequence[Chapter], place: int) -> str:
    """Return what the model reads at ``place`` of a text with ``chapters``: this chapter's line and the next.

    A chapter's line is the one with its title, or else the one with its number; where the text has no
    chapters yet, the first.
    """
    lines = lines_of(outline)
    titled = [chapter for chapter in chapters if chapter.title]
    begun = [chapter for chapter in titled if chapter.begin <= place]
    here = max(len(begun) - 1, 0)
    if begun:
        names = [line.title.casefold() for line in lines]
        if (title := begun[-1].title.casefold()) in names:
            here = names.index(title)
    told = (("This chapter", lines[here : here + 1]), ("The next chapter", lines[here + 1 : here + 2]))
    return "\n".join(f"[{name}: {line.synopsis}]" for name, some in told for line in some if line.synopsis)


def line_request(engine: Backend, text: str, *, instruct: bool) -> Request:
    """Return the request for a synopsis of ``text``, a chapter."""
    text = engine.detokenize(engine.tokenize(text.strip())[: engine.n_ctx // 2])
    stop = Stop(max_tokens=60, strings=("\n",), min_tokens=4)
    example = _EXAMPLE.format(text=" ".join(text.split()))
    return description_request(engine, _ASK.format(text=text), example, stop, instruct=instruct)
