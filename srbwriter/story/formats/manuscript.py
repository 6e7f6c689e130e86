"""Collects the headings, paragraphs and notes of a document or web page into a story.

Emphasis becomes Markdown marks, a heading begins a chapter, blank lines separate paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from srbwriter.story.formats.build import Grower, notice
from srbwriter.story.formats.inline import Inline, marked
from srbwriter.story.headings import is_scene_break
from srbwriter.story.model import DraftNode, Marks, StoryDraft

_SAID_BY_MARKS = re.compile(r"^(?=#{1,6}[ \t]+\S|```)", re.MULTILINE)
_SPACE = re.compile(r"\s+")


@dataclass(slots=True)
class _Section:
    title: str = ""
    paragraphs: list[str] = field(default_factory=list[str])
    footnotes: list[str] = field(default_factory=list[str])
    remarks: list[str] = field(default_factory=list[str])


class Manuscript:
    """Collects the parts of a document in reading order."""

    def __init__(self) -> None:
        self._sections = [_Section()]
        self._notices: dict[str, None] = {}  # each once, in order
        self._plainer = 0

    @property
    def empty(self) -> bool:
        """Whether no word has been shown so far."""
        return not any(section.title or section.paragraphs for section in self._sections)

    def heading(self, level: int, parts: Sequence[Inline]) -> None:
        """A heading of the first to the sixth level; deeper ones count as the sixth."""
        title = _SPACE.sub(" ", "".join(part.text for part in parts)).strip()
        if title:
            line = _SPACE.sub(" ", marked(parts).text).strip()
            self._sections.append(_Section(title, [f"{'#' * max(1, min(level, 6))} {line}"]))

    def paragraph(self, parts: Sequence[Inline]) -> None:
        """A paragraph, which may have several lines; one without words is left out."""
        if any(part.text.strip() for part in parts):
            self._sections[-1].paragraphs.append("\n".join(self._lines(parts)))

    def _lines(self, parts: Sequence[Inline]) -> Iterator[str]:
        """The lines of a paragraph; stars in a line of their own are no marks."""
        words: list[Inline] = []
        for line in _split_lines(parts):
            text = "".join(part.text for part in line)
            if not is_scene_break(text):
                words += [Inline("\n"), *line] if words else line
                continue
            if words:
                yield self._marked(words)
                words = []
            yield text.strip()
        if words:
            yield self._marked(words)

    def table(self, rows: Sequence[Sequence[Sequence[Inline]]]) -> None:
        """Add a table as one paragraph: a line for each row, with ``|`` between the words of its cells."""
        self.add_notice("tables became lines, with | between the cells")
        parts: list[Inline] = []
        for cells in rows:
            for place, words in enumerate(cells):
                parts += [Inline(" | ")] if place else []
                parts += words
            parts.append(Inline("\n"))
        self.paragraph(parts[:-1])

    def footnote(self, label: str, parts: Sequence[Inline]) -> None:
        """Add a note that ``[^label]`` in the text points to; it is placed at the end of its chapter."""
        self._sections[-1].footnotes.append(f"[^{label}]: {self._marked(parts).strip()}")

    def remark(self, text: str) -> None:
        """Add a comment on the text; it becomes the note of the chapter's node."""
        self._sections[-1].remarks.append(text)

    def add_notice(self, words: str) -> None:
        """Add a notice for the writer about this import."""
        self._notices[words] = None

    def _marked(self, parts: Sequence[Inline]) -> str:
        text, complete = marked(parts)
        self._plainer += not complete
        return _SAID_BY_MARKS.sub(r"\\", text)

    def draft(self) -> StoryDraft:
        """The story, a node for each chapter."""
        grower = Grower()
        here = grower.root
        shown = [section for section in self._sections if section.paragraphs or section.remarks]
        for section in shown:
            text = "\n\n".join([*section.paragraphs, *section.footnotes])
            note = "\n".join(section.remarks)
            marks = Marks(chapter=bool(section.title), title=section.title, note=note)
            text += "\n\n" if section is not shown[-1] else ""
            here = grower.add(here, DraftNode("", text=text, marks=marks))
        draft = grower.draft(here)
        if self._plainer:
            self.add_notice(
                f"in {self._plainer} places Markdown has no marks for the emphasis; the words are plain"
            )
        for words in self._notices:
            notice(draft, words)
        return draft


def _split_lines(parts: Sequence[Inline]) -> list[list[Inline]]:
    lines: list[list[Inline]] = [[]]
    for part in parts:
        first, *others = part.text.split("\n")
        lines[-1].append(Inline(first, *part.look))
        lines += ([Inline(other, *part.look)] for other in others)
    return lines
