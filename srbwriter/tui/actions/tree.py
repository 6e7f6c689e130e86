"""Commands that show the story tree and move in it, and the bin that restores deleted branches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from srbwriter.story import NodeId
from srbwriter.tui.commands import command
from srbwriter.tui.dialogs.ask import Ask
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.tree.screen import TreeScreen
from srbwriter.tui.tree.view import marks_words

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

_MOST = 500  # the list shows only this many of the newest deleted branches
TREE = "The tree"


@command(TREE, "The tree", anywhere="f3")
def tree(screen: WriteScreen) -> None:
    """Show every branch ever written; go to one and continue there."""
    screen.session.keep()

    screen.ask(TreeScreen(screen.session, lambda: search(screen)), lambda node: revisit(screen, node))


def revisit(screen: WriteScreen, node: NodeId) -> None:
    """Go to another node of the tree."""
    screen.session.revisit(node)
    screen.show_story()


@command(TREE, "Search the tree")
def search(screen: WriteScreen) -> None:
    """Find words in all branches, including those not picked."""
    screen.session.keep()

    def answered(words: str) -> None:
        if not words:
            return
        hits = screen.session.story.search(words)
        texts = {node.id: node.text for node in screen.session.story.nodes([hit.node for hit in hits])}
        choices = [Choice(hit.node, " ".join(hit.snippet.split()), preview=texts[hit.node]) for hit in hits]
        while not screen.on_top:
            screen.app.pop_screen()
        _choose(screen, f"Branches with {words}", choices, f"No branch has {words}.")

    screen.ask(Ask("Words to find in all branches"), answered)


def _choose(screen: WriteScreen, title: str, choices: list[Choice], nothing: str) -> None:
    if choices:
        screen.ask(Picker(title, choices), lambda node: revisit(screen, node))
    else:
        screen.notify(nothing)


@command(TREE, "Bookmarks")
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


@command(TREE, "The bin")
def bin_(screen: WriteScreen) -> None:
    """Restore a deleted branch."""
    screen.session.keep()
    deleted = node_choices(screen, screen.session.story.bin()[:_MOST])

    def restore(node: NodeId) -> None:
        screen.session.story.restore(node)
        revisit(screen, node)

    if choices := [choice for choice in deleted if choice.preview]:
        screen.ask(Picker("The bin, newest first: enter restores it", choices), restore)
    else:
        screen.notify("The bin is empty.")
