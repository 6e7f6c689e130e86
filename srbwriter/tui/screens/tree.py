"""The tree: every branch that was ever written, what is marked, and a way to go to each.

A face on the story's own verbs; going somewhere is left to the write screen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.document._document import Document
from textual.widgets import Static, TextArea

from srbwriter.story import ROOT, NodeId, StoryError
from srbwriter.story.model import counted
from srbwriter.tui.dialog import Dialog, Page
from srbwriter.tui.screens.ask import AskWords
from srbwriter.tui.screens.reading import Compare
from srbwriter.tui.welcome import refuse
from srbwriter.tui.widgets.tree_view import TreeView, marks_words

if TYPE_CHECKING:
    from srbwriter.session import Session


_KEYS = (
    "enter go there · g go and write · space open or fold · b bookmark · > < rate · n note · t title · "
    "# tags · u read or unread · h hoist · m then d compare · s split · M join with the node before · "
    "[ ] move among its siblings · / search · x bin · esc back"
)


@dataclass(frozen=True, slots=True)
class Way:
    """Where the writer wants to go, and whether branches are to be written there."""

    node: NodeId
    write: bool = False


class TreeScreen(Page[Way]):
    """Dismissed with a way, or None."""

    DEFAULT_CSS = """
    TreeScreen TreeView { width: 3fr; height: 1fr; }
    TreeScreen #side { width: 2fr; height: 1fr; border-left: solid $panel; }
    TreeScreen #side VerticalScroll { height: 1fr; }
    TreeScreen #side Static { padding: 0 2; height: auto; }
    TreeScreen #about { color: $text-muted; }
    TreeScreen #foot { background: $panel; color: $text-muted; height: auto; padding: 0 1; }
    """

    def __init__(self, session: Session, search: Callable[[], None]) -> None:
        super().__init__()
        self.session, self.story = session, session.story
        self.view = TreeView(self.story)
        self._search = search
        self._marked: NodeId | None = None

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield self.view
            with Vertical(id="side"):
                yield Static(id="about", markup=False)
                with VerticalScroll(can_focus=False):
                    yield Static(id="text", markup=False)
        yield Static(_KEYS, id="foot", markup=False)

    def on_mount(self) -> None:
        self.view.build(self.story.current)
        self.view.focus()
        self.call_after_refresh(lambda: self.view.go(self.view.cursor))  # now the height is known

    @on(TreeView.At)
    def _at(self, event: TreeView.At) -> None:
        if event.row.folded:
            self.query_one("#about", Static).update("space shows them")
            self.query_one("#text", Static).update("")
            return
        node = self.story.node(event.row.node)
        facts = [
            f"node {node.id}",
            node.author,
            node.model,
            node.finish_reason,
            marks_words(self.story, node.id),
        ]
        words = counted(len(node.text.split()), "word")
        about = " · ".join(fact for fact in [*facts, words] if fact)
        self.query_one("#about", Static).update(about + (f"\n{node.marks.note}" if node.marks.note else ""))
        self.query_one("#text", Static).update(node.text.strip() or "(no words)")

    @on(TreeView.Wanted)
    def _wanted(self) -> None:
        self._go(write=False)

    def _go(self, write: bool) -> None:
        if self.view.row.folded:
            self.view.fold()
        else:
            self.close(Way(self.view.row.node, write))

    def on_key(self, event: events.Key) -> None:
        actions: dict[str, Callable[[], None]] = {
            "enter": lambda: self._go(write=False),
            "g": lambda: self._go(write=True),
            "space": self.view.fold,
            "b": lambda: self._mark(bookmark=not self._marks().bookmark),
            "greater_than_sign": lambda: self._mark(rating=0 if self._marks().rating == 1 else 1),
            "less_than_sign": lambda: self._mark(rating=0 if self._marks().rating == -1 else -1),
            "u": self._toggle_read,
            "n": lambda: self._ask("Note", "note", self._marks().note),
            "t": lambda: self._ask("Title; it makes the node a chapter", "title", self._marks().title),
            "number_sign": lambda: self._ask(
                "Tags, with commas between them", "tags", ", ".join(self._marks().tags)
            ),
            "h": self._hoist,
            "m": self._remember,
            "d": self._compare,
            "slash": self._search,
            "x": self._bin,
            "s": self._split,
            "M": self._merge,
            "left_square_bracket": lambda: self._move(-1),
            "right_square_bracket": lambda: self._move(1),
            # The tree's own keys, for whoever presses one before the screen has given it the focus.
            "left": self.view.action_out,
            "right": self.view.action_into,
            "up": lambda: self.view.action_move(-1),
            "down": lambda: self.view.action_move(1),
        }
        act = actions.get(event.key)
        if act is None:
            return
        event.stop()
        event.prevent_default()
        if self.on_top:  # else it was pressed before the screen that is above now was there
            self._guarded(act)

    def _guarded(self, act: Callable[[], None]) -> bool:
        """Do something, and say in a line what the story refuses."""
        try:
            act()
        except StoryError as error:
            self.notify(str(error), severity="error")
            return False
        return True

    # ---- marks

    def _marks(self):  # noqa: ANN202 - the story's own type
        return self.story.marks(self.view.row.node)

    def _mark(self, **marks: object) -> None:
        node = self.view.row.node
        if node != ROOT and not self.view.row.folded:
            self.story.mark(node, **marks)  # type: ignore[arg-type]
            self.view.build(node)

    def _ask(self, question: str, field: str, now: str) -> None:
        node = self.view.row.node
        if node == ROOT or self.view.row.folded:
            return
        refuse(self.story)

        def take(text: str) -> bool:
            marks: dict[str, object] = {field: text}
            if field == "tags":
                marks["tags"] = [tag.strip() for tag in text.split(",") if tag.strip()]
            elif field == "title":
                marks["chapter"] = bool(text)
            return self._guarded(lambda: self.session.together(lambda: self._mark(**marks)))

        draft = self.session.draft(f"{field} of node {node}")
        self.open(AskWords(question, take, draft, now))

    def _toggle_read(self) -> None:
        node = self.view.row.node
        self.story.mark_visited(node, node in set(self.story.unread()))
        self.view.build(node)

    # ---- looking

    def _hoist(self) -> None:
        row = self.view.row
        top = ROOT if self.story.hoisted != ROOT else row.node
        self.story.hoist(top)
        self.view.build(row.node)

    def _remember(self) -> None:
        self._marked = self.view.row.node
        self.notify("Press d on another node to compare.")

    def _compare(self) -> None:
        other, here = self._marked, self.view.row.node
        if other is None or other == here:
            self.notify("Press m on one node and d on another.")
            return
        texts = self.story.node(other).text, self.story.node(here).text
        self.open(Compare((f"Node {other}", f"Node {here}"), texts))

    def _bin(self) -> None:
        row = self.view.row
        if row.folded or row.node == ROOT:
            return
        if row.node in self.story.path(self.story.current):
            self.notify("You stand on it. Go elsewhere first.")
            return
        above = self.story.parent(row.node)
        self.story.delete(row.node)
        self.view.build(above)
        self.notify("In the bin; undo brings it back.")

    # ---- the shape of the tree

    def _own_node(self) -> NodeId | None:
        """The node under the cursor if it is one that can be cut and moved."""
        row = self.view.row
        return None if row.folded or row.node == ROOT else row.node

    def _split(self) -> None:
        node = self._own_node()
        if node is None:
            return
        refuse(self.story)

        def chosen(at: int | None) -> None:
            if at is not None:
                self._guarded(lambda: self._change(lambda: self.story.split(node, at)))

        self.open(SplitAt(self.story.node(node).text), chosen)

    def _merge(self) -> None:
        if (node := self._own_node()) is not None:
            self._change(lambda: self.story.merge(node))

    def _move(self, places: int) -> None:
        """Put the node before the sibling above it, or behind the one below."""
        if (node := self._own_node()) is not None:
            siblings = self.story.children(self.story.parent(node) or ROOT)
            place = siblings.index(node) + places
            if 0 <= place < len(siblings):
                self._change(lambda: self._reordered(node, place))
            else:
                self.notify(f"It is the {'first' if places < 0 else 'last'} of its siblings.")

    def _reordered(self, node: NodeId, place: int) -> NodeId:
        self.story.reorder(node, place)
        return node

    def _change(self, change: Callable[[], NodeId]) -> None:
        """Change the tree, and stand on what came of it."""
        self.view.build(self.session.together(change))


class SplitAt(Dialog[int]):
    """Dismissed with a character of ``text`` that is neither its beginning nor its end, or None."""

    HEADING = "Split"
    FOOT = "enter cuts where the cursor stands; what follows it becomes a node of its own · esc goes back"

    DEFAULT_CSS = """
    SplitAt > .box { height: 70%; }
    SplitAt TextArea { height: 1fr; border: none; background: $background; margin: 1 0; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def content(self) -> ComposeResult:
        yield TextArea(self._text, soft_wrap=True, show_line_numbers=False, read_only=True)

    def on_key(self, event: events.Key) -> None:
        if event.key != "enter":
            return
        event.stop()
        area = self.query_one(TextArea)
        at = cast(Document, area.document).get_index_from_location(area.cursor_location)
        if 0 < at < len(self._text):
            self.close(at)
        else:
            self.notify("Nothing stands on one side of the cursor.")
