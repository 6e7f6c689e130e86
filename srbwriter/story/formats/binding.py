"""Several stories bound into one, each a chapter or a scene that follows the one before it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from srbwriter.story.formats.build import ROOT_ID, notice
from srbwriter.story.formats.inline import plain
from srbwriter.story.formats.prose import heading_at, path_text
from srbwriter.story.model import (
    DraftNode,
    Marks,
    Settings,
    Span,
    StoryDraft,
    path_to,
)

_NUMBERED = re.compile(r"(?:0\d*|\d+(?=\s*[-._)]))[\s\-._)]+(?=\S)")
_BLANK_LINE = "\n\n"


def title_of(path: str) -> str:
    """A chapter's title from the name of its file, without the number that puts it in its place."""
    stem = PurePosixPath(path).stem.replace("_", " ").strip()
    return _NUMBERED.sub("", stem, count=1).strip() if _NUMBERED.match(stem) else stem


class Binder:
    """Takes stories in their order."""

    def __init__(self) -> None:
        self._nodes = [DraftNode(ROOT_ID)]
        self._end = self._nodes[0]
        self._children: dict[str, int] = {}
        self._ending = ""  # the last characters of the text so far
        self._parts = 0
        self._notices: list[str] = []
        self.byline = self.language = ""

    @property
    def empty(self) -> bool:
        """Whether nothing was bound so far."""
        return len(self._nodes) == 1

    def add_notice(self, words: str) -> None:
        """Add a notice for the writer about this import."""
        self._notices.append(words)

    def draft(self, title: str) -> StoryDraft:
        """What was bound."""
        draft = StoryDraft(self._nodes, self._end.id, title, self.byline, self.language)
        for words in self._notices:
            notice(draft, words)
        return draft

    def add(
        self, part: StoryDraft, name: str, title: str, *, level: int = 1, marks: Marks | None = None,
        beside: bool = False,
    ) -> None:  # fmt: skip
        """Bind ``part``, with all its branches, to the end of the text.

        Args:
            part: the story in a file.
            name: the file's name, for notices.
            title: its title, where it has none of its own.
            level: of the heading that it gets where its text does not begin with one; 0 is a scene without.
            marks: more marks for its first node.
            beside: whether what follows leaves it out.
        """
        self._notices += [f"{name}: {words}" for words in part.meta.get("notices", [])]
        self.byline, self.language = self.byline or part.byline, self.language or part.language
        path = path_to(part, part.current_id)
        nodes = list(part.nodes)
        if _is_bare(part.root) and len(path) > 1:
            nodes, path = nodes[1:], path[1:]
        first = next((node for node in path if node.text), path[0])
        self._name(first, path_text(part), part.title or title, level, marks or Marks())
        text = path_text(part)
        self._separate(first, text, beside)
        self._hang(nodes, part.root)
        if not beside:
            self._end = path[-1]
            self._ending = (self._ending + text)[-2:]

    def _name(self, node: DraftNode, text: str, title: str, level: int, marks: Marks) -> None:
        """Make the node a chapter with a heading, or a scene with a title."""
        own = heading_at(text.lstrip("\n"))
        title = node.marks.title or (plain(own[0].title) if own is not None else title)
        if level and own is None:
            _extend(node, before=f"{'#' * min(level, 6)} {title}{_BLANK_LINE}")
        node.mark(
            title=title,
            chapter=node.marks.chapter or level > 0,
            note="\n\n".join(filter(None, (node.marks.note, marks.note))),
            tags=tuple(dict.fromkeys((*node.marks.tags, *marks.tags))),
        )

    def _separate(self, first: DraftNode, text: str, beside: bool) -> None:
        """Have a blank line between what was bound and what follows."""
        if not self._ending or not text:
            return
        missing = _BLANK_LINE[len(self._ending) - len(self._ending.rstrip("\n")) :]
        if beside or self._children.get(self._end.id):
            _extend(first, before=missing)
        else:
            _extend(self._end, after=missing)
            self._ending = _BLANK_LINE

    def _hang(self, nodes: list[DraftNode], root: DraftNode) -> None:
        """Put the nodes of a part below the end, under names of their own."""
        self._parts += 1
        end, behind = self._end.id, self._children.get(self._end.id, 0)
        names = {root.id: end}
        for node in nodes:
            own = f"{self._parts}-{node.id}"
            top = node.parent_id is None or (node.parent_id == root.id and nodes[0] is not root)
            node.parent_id = end if top else names[node.parent_id or ""]
            names[node.id], node.id, node.number = own, own, None
            if top:
                node.order += behind
                self._children[end] = max(self._children.get(end, 0), node.order + 1)
            self._nodes.append(node)


def _is_bare(root: DraftNode) -> bool:
    """Whether nothing is lost without the root."""
    return not root.text and not root.meta and root.settings == Settings() and root.marks == Marks()


def _extend(node: DraftNode, before: str = "", after: str = "") -> None:
    """Add to the text of a node; what it says of its authors stays true."""
    if node.spans:
        around = [Span(before, "imported")], [Span(after, "imported")]
        node.spans = [span for span in (*around[0], *node.spans, *around[1]) if span.text]
    node.text = before + node.text + after
