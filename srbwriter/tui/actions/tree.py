"""Commands that show the story tree and move in it, and the bin that restores deleted branches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from srbwriter.story import ROOT, NodeId
from srbwriter.tui.commands import command
from srbwriter.tui.dialogs.ask import Ask, asks
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.tree.screen import Destination, TreeScreen
from srbwriter.tui.tree.view import marks_words
from srbwriter.tui.write.welcome import writes

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

_MATCH = str.maketrans("", "", "\x02\x03")
_MOST = 500  # the list shows only this many of the newest deleted branches
TREE = "The tree"


@command(TREE, "The tree", letters="T", anywhere="f3")
def tree(screen: WriteScreen) -> None:
    """Show every branch ever written; go to one and continue there."""
    screen.session.keep()
    tree = TreeScreen(screen.session, lambda: search(screen))
    screen.app.push_screen(tree, lambda target: _go(screen, target))


def _go(screen: WriteScreen, target: Destination | None) -> None:
    screen.show_headings()  # titles may have changed
    if target is not None:
        screen.guarded(lambda: screen.revisit(target.node, write=target.write))


@command(TREE, "Back one pick", letters="P")
def parent(screen: WriteScreen) -> None:
    """Go back to before the last pick."""
    screen.session.keep()
    above = screen.session.story.parent(screen.session.node)
    if above is None:
        screen.notify("This is the beginning.")
    else:
        screen.revisit(above)


@command(TREE, "Split at the cursor")
@writes
def split(screen: WriteScreen) -> None:
    """Split a passage in two at the cursor in the story, to branch off there."""
    node = screen.session.split_at(screen.editor.place)
    first = " ".join(screen.session.story.node(node).text.split()[:4])
    screen.notify(f"Split: a new passage starts with: {first} …")


@command(TREE, "Join with the passage before", letters="J")
@writes
def merge(screen: WriteScreen) -> None:
    """Join the last two passages; siblings of the last one keep their text."""
    session = screen.session
    session.keep()
    session.story.end_typing()
    session.together(lambda: session.story.merge(session.node))
    screen.notify("Joined the last two passages.")


@command(TREE, "Search the tree", letters="S")
@asks
def search(screen: WriteScreen) -> None:
    """Find words in all branches, including those not picked."""
    screen.session.keep()

    def answered(words: str | None) -> None:
        if not words:
            return
        hits = screen.session.story.search(words)
        texts = {node.id: node.text for node in screen.session.story.nodes([hit.node for hit in hits])}
        choices = [
            Choice(hit.node, " ".join(hit.snippet.translate(_MATCH).split()), preview=texts[hit.node])
            for hit in hits
        ]
        while screen.app.screen is not screen:
            screen.app.pop_screen()
        _choose(screen, f"Branches with {words}", choices, f"No branch has {words}.")

    screen.app.push_screen(Ask("Words to find in all branches"), answered)


def _choose(screen: WriteScreen, title: str, choices: list[Choice], nothing: str) -> None:
    if not choices:
        screen.notify(nothing)
        return

    def chosen(node: NodeId | None) -> None:
        _go(screen, None if node is None else Destination(node))

    screen.app.push_screen(Picker(title, choices), chosen)


@command(TREE, "Bookmarks", letters="B")
def bookmarks(screen: WriteScreen) -> None:
    """Go to a bookmarked branch."""
    nodes = screen.session.story.bookmarks()
    _choose(screen, "Bookmarks", node_choices(screen, nodes), "Nothing is bookmarked yet.")


def node_choices(screen: WriteScreen, nodes: Iterable[NodeId]) -> list[Choice]:
    """Return a picker entry for each of ``nodes``: first words, marks, full text as preview."""
    story = screen.session.story
    found: list[Choice] = []
    for node in story.nodes(list(nodes)):
        line = " ".join(node.text.split())
        found.append(
            Choice(node.id, line[:60] or "(no words)", marks_words(story, node.id), node.text.strip())
        )
    return found


@command(TREE, "History of picks", letters="H")
def history(screen: WriteScreen) -> None:
    """Go back to any earlier pick."""
    screen.session.keep()
    story = screen.session.story
    picked = [node for node in story.path(screen.session.node) if node != ROOT]
    choices = node_choices(screen, reversed(picked))
    _choose(screen, "History of picks, newest first", choices, "Nothing is written yet.")


@command(TREE, "The bin", letters="Z")
def bin_(screen: WriteScreen) -> None:
    """Restore a deleted branch."""
    screen.session.keep()
    deleted = node_choices(screen, screen.session.story.bin()[:_MOST])
    choices = [choice for choice in deleted if choice.preview]
    if not choices:
        screen.notify("The bin is empty.")
        return

    def chosen(node: NodeId | None) -> None:
        if node is not None:
            screen.guarded(lambda: _restore(screen, node))

    screen.app.push_screen(Picker("The bin, newest first: enter restores it", choices), chosen)


def _restore(screen: WriteScreen, node: NodeId) -> None:
    screen.session.story.restore(node)
    screen.revisit(node)
