"""The view of the story tree, one line per node.

It draws only visible lines and reads only their text, so a large tree costs no more than a small one.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from srbwriter.session.prefix import in_whole_words
from srbwriter.story import ROOT, NodeId, Story
from srbwriter.tui.commands import Keyed, action


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One line: a node, or ``folded`` hidden children of ``node``; ``goes_on`` with the branch above."""

    node: NodeId
    depth: int
    on_way: bool = False
    folded: int = 0
    goes_on: bool = False


def rows(story: Story, opened: Set[NodeId] = frozenset()) -> list[TreeRow]:
    """Return the lines of the tree.

    Side branches of the current path are folded into one line per fork, unless their parent is in ``opened``.
    Those at the writer's current node are unfolded, unless it is in ``opened``.
    """
    here = story.current
    path = set(story.path(here))
    found: list[TreeRow] = []
    # A stack: the row pushed first is shown last.
    waiting: list[TreeRow] = [TreeRow(ROOT, 0, on_way=True)]
    while waiting:
        row = waiting.pop()
        found.append(row)
        if row.folded:
            continue
        children = story.children(row.node)
        main = next((child for child in children if child in path), None)
        if main is None and row.node not in path and children:
            main = children[0]
        others = [child for child in children if child != main]
        if main is not None:
            waiting.append(TreeRow(main, row.depth, on_way=main in path, goes_on=True))
        is_open = (row.node in opened) != (row.node == here)
        if is_open or (len(others) == 1 and row.node not in path):
            waiting.extend(TreeRow(child, row.depth + 1) for child in reversed(others))
        elif others:
            waiting.append(TreeRow(row.node, row.depth + 1, folded=len(others)))
    return found


_MAX_INDENT = 24
_PAGE = 20  # rows
_AUTHORS = {"writer": "✎", "edited": "✎", "imported": "⇣", "model": " "}


def marks_words(story: Story, node: NodeId) -> str:
    """Return a node's marks as signs: ★ bookmark, its title."""
    marks = story.node(node)
    return " ".join(filter(None, ["★" if marks.bookmark else "", marks.title]))


class TreeView(Keyed, ScrollView, can_focus=True, inherit_bindings=False):
    """The tree. The cursor is a row."""

    COMPONENT_CLASSES = {"tree--way", "tree--side", "tree--cursor", "tree--mark"}
    DEFAULT_CSS = """
    TreeView {
        scrollbar-size-vertical: 0; scrollbar-size-horizontal: 0; background: $background;
        .tree--way { color: $foreground; }
        .tree--side { color: $text-muted; }
        .tree--mark { color: $text-accent; text-style: bold; }
        .tree--cursor { background: $primary; color: $background; text-style: bold; }
    }
    """

    def __init__(self, story: Story, moved: Callable[[], object], chosen: Callable[[], object]) -> None:
        """``moved`` is called when the cursor is at another row, ``chosen`` after a double click on one."""
        super().__init__()
        self.story, self._moved, self._chosen = story, moved, chosen
        self.rows: list[TreeRow] = []
        self.cursor = 0
        self.opened: set[NodeId] = set()

    @property
    def row(self) -> TreeRow:
        return self.rows[self.cursor]

    def build(self, at: NodeId | None = None) -> None:
        """Read the tree again and put the cursor on node ``at`` if it is visible."""
        self.rows = rows(self.story, self.opened)
        self.virtual_size = Size(0, len(self.rows))
        found = [index for index, row in enumerate(self.rows) if row.node == at and not row.folded]
        self.go(found[0] if found else min(self.cursor, len(self.rows) - 1))

    def go(self, index: int) -> None:
        """Put the cursor on a row."""
        self.cursor = max(0, min(index, len(self.rows) - 1))
        top, height = self.scroll_offset.y, max(1, self.size.height)
        if not top <= self.cursor < top + height:
            self.scroll_to(y=max(0, self.cursor - height // 2), animate=False)
        self.refresh()
        self._moved()

    @action("up,k", "up", -1, foot=False)
    @action("down,j", "down", 1, foot=False)
    @action("pageup", "page up", -_PAGE, foot=False)
    @action("pagedown", "page down", _PAGE, foot=False)
    def action_move(self, rows: int) -> None:
        """Move the cursor by lines."""
        self.go(self.cursor + rows)

    @action("left", "to the fork", foot=False)
    def action_out(self) -> None:
        """Go to the fork where this branch begins."""
        row = self.row
        self._go_to(row.node if row.folded else self.story.node(row.node).parent)

    @action("right", "further", foot=False)
    def action_into(self) -> None:
        """Go to the continuation, or unfold branches."""
        if self.row.folded:
            self.action_fold()
            return
        children = set(self.story.children(self.row.node))
        further = [row.node for row in self.rows if row.node in children and not row.folded]
        self._go_to(further[-1] if further else None)

    def _go_to(self, node: NodeId | None) -> None:
        for index, row in enumerate(self.rows):
            if row.node == node and not row.folded:
                self.go(index)

    @action("space", "fold")
    def action_fold(self) -> None:
        """Unfold or fold the side branches."""
        row = self.row
        fork = row.node if row.folded or not row.depth else self.story.node(row.node).parent or ROOT
        self.opened ^= {fork}
        self.build(fork if not row.folded else None)

    # ---- drawing

    def render_line(self, y: int) -> Strip:
        index = y + self.scroll_offset.y
        if index >= len(self.rows):
            return Strip.blank(self.size.width, self.rich_style)
        return self._row(self.rows[index], index == self.cursor, self.size.width)

    def _row(self, row: TreeRow, at_cursor: bool, width: int) -> Strip:
        style = self.get_component_rich_style(
            "tree--cursor" if at_cursor else "tree--way" if row.on_way else "tree--side"
        )
        lead = "  " * min(row.depth, _MAX_INDENT // 2) + ("├ " if row.depth and not row.goes_on else "│ ")
        if row.folded:
            words = f" {lead}⋯ {row.folded} more {'branch' if row.folded == 1 else 'branches'}"
            return Strip([Segment(words, style)]).adjust_cell_length(width, style)
        here = "▶" if row.node == self.story.current else " "
        node = self.story.node(row.node)
        marks = marks_words(self.story, row.node)
        mark_style = style if at_cursor else self.get_component_rich_style("tree--mark")
        preview = " ".join(in_whole_words(self.story, node).split()) or (
            "the beginning" if row.node == ROOT else "(no words)"
        )
        before = f"{here}{lead} {_AUTHORS.get(node.author, ' ')} "
        segments = [Segment(before, style)]
        if marks:
            segments.append(Segment(f"{marks} ", mark_style))
        segments.append(Segment(preview[:width], style))
        return Strip(segments).adjust_cell_length(width, style)

    # ---- mouse

    def on_click(self, event: events.Click) -> None:
        index = event.y + self.scroll_offset.y
        if index < len(self.rows):
            self.go(index)
            if event.chain == 2:
                self._chosen()
