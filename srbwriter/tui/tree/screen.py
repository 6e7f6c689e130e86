"""The tree screen: every branch ever written, with its marks; the writer can go to any of them.

It calls the story's own functions; going to a node is done by the write screen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from srbwriter.session.prefix import in_whole_words
from srbwriter.session.round import wish_of
from srbwriter.story import ROOT, NodeId
from srbwriter.story.model import counted
from srbwriter.story.words import words_of
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.base import KeyLine, Page
from srbwriter.tui.tree.view import TreeView, marks_words
from srbwriter.tui.write.branch_words import ended_words

if TYPE_CHECKING:
    from srbwriter.session import Session


_AUTHORS = {"writer": "yours", "edited": "edited by you", "model": "by the model"}


class TreeScreen(Page[NodeId]):
    """Shows the story tree. Dismissed with the node that the writer chose, or None."""

    BADGE = "TREE"

    OPENED_BY = "tree"
    DEFAULT_CSS = """
    TreeScreen TreeView { width: 3fr; height: 1fr; }
    TreeScreen #side { width: 2fr; height: 1fr; border-left: solid $panel; }
    TreeScreen #side VerticalScroll { height: 1fr; }
    TreeScreen #side Static { padding: 0 2; height: auto; }
    TreeScreen #about { color: $text-muted; }
    """

    def __init__(self, session: Session, search: Callable[[], None]) -> None:
        super().__init__()
        self.session, self.story = session, session.story
        self.view = TreeView(self.story, self._show, self.action_go)
        self._search = search

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield self.view
            with Vertical(id="side"):
                yield Static(id="about", markup=False)
                with VerticalScroll(can_focus=False):
                    yield Static(id="text", markup=False)
        yield KeyLine(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.view.build(self.story.current)
        self.view.focus()
        self.call_after_refresh(lambda: self.view.go(self.view.cursor))  # the height is known only then

    def _show(self) -> None:
        """Show the text at the cursor, and its facts."""
        if self.view.row.folded:
            self.query_one("#about", Static).update("space shows them")
            self.query_one("#text", Static).update("")
            return
        node = self.story.node(self.view.row.node)
        facts = [
            _AUTHORS.get(node.author, node.author),
            node.model,
            ended_words(node.finish_reason),
            f"asked for: {wish}" if (wish := wish_of(node)) else "",
            marks_words(self.story, node.id),
        ]
        words = counted(words_of(node.text), "word")
        self.query_one("#about", Static).update(" · ".join(fact for fact in [*facts, words] if fact))
        self.query_one("#text", Static).update(in_whole_words(self.story, node).strip() or "(no words)")

    # ---- moving

    @action("enter", "go there")
    def action_go(self) -> None:
        """Go there and continue from there."""
        if self.view.row.folded:
            self.view.action_fold()
        else:
            self.close(self.view.row.node)

    # ---- marks

    @action("b", "bookmark")
    def action_bookmark(self) -> None:
        """Bookmark it, to find it later; again to remove the bookmark."""
        if (node := self._own_node()) is not None:
            self.story.mark(node, bookmark=not self.story.node(node).bookmark)
            self.view.build(node)

    # ---- looking

    @action("slash", "search")
    def action_search(self) -> None:
        """Find words in all branches."""
        self._search()

    @action("x", "bin")
    def action_bin(self) -> None:
        """Move it and all that continues it to the bin."""
        if (node := self._own_node()) is None:
            return
        if node in self.story.path(self.story.current):
            self.notify("The current text goes through here. Go to another branch first.")
            return
        above = self.story.node(node).parent
        self.story.delete(node)
        self.view.build(above)
        self.notify("Moved to the bin; undo restores it.")

    def _own_node(self) -> NodeId | None:
        """Return the node under the cursor if it can be changed; else say why not and return None."""
        row = self.view.row
        if not row.folded and row.node != ROOT:
            return row.node
        why = "This is the beginning of the story; it has no text to change."
        if row.folded:
            why = "These branches are folded; space shows them."
        self.notify(why)
        return None
