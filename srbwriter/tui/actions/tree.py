"""Commands that look at the tree and go about in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from srbwriter.story import ROOT, NodeId
from srbwriter.tui.actions import verb
from srbwriter.tui.screens.ask import Ask
from srbwriter.tui.screens.picker import Choice, Picker
from srbwriter.tui.screens.tree import TreeScreen, Way
from srbwriter.tui.welcome import writes
from srbwriter.tui.widgets.tree_view import marks_words

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen

_MATCH = str.maketrans("", "", "\x02\x03")


def _go(screen: WriteScreen, way: Way | None) -> None:
    if way is not None:
        screen.guarded(lambda: screen.revisit(way.node, write=way.write))


def _choose(screen: WriteScreen, title: str, choices: list[Choice], nothing: str) -> None:
    if not choices:
        screen.notify(nothing)
        return

    def chosen(node: NodeId | None) -> None:
        _go(screen, None if node is None else Way(node))

    screen.app.push_screen(Picker(title, choices), chosen)


def node_choices(screen: WriteScreen, nodes: Iterable[NodeId]) -> list[Choice]:
    """An entry for each of ``nodes``: its first words, its marks, all of its words."""
    story = screen.session.story
    found: list[Choice] = []
    for node in story.nodes(list(nodes)):
        line = " ".join(node.text.split())
        found.append(
            Choice(node.id, line[:60] or "(no words)", marks_words(story, node.id), node.text.strip())
        )
    return found


@verb
def tree(screen: WriteScreen) -> None:
    screen.session.keep()
    tree = TreeScreen(screen.session, lambda: search(screen))
    screen.app.push_screen(tree, lambda way: _go(screen, way))


@verb
def parent(screen: WriteScreen) -> None:
    screen.session.keep()
    above = screen.session.story.parent(screen.session.node)
    if above is None:
        screen.notify("This is the beginning.")
    else:
        screen.revisit(above)


@verb
@writes
def write_from(screen: WriteScreen) -> None:
    place, whole = screen.editor.place, screen.editor.whole
    screen.session.write_from(place)
    screen.show_story()
    screen.flush()
    if whole[place:].strip():
        screen.notify("What followed is another branch now; undo brings it back.")


@verb
@writes
def split(screen: WriteScreen) -> None:
    node = screen.session.split_at(screen.editor.place)
    first = " ".join(screen.session.story.node(node).text.split()[:4])
    screen.notify(f"A node of its own begins with: {first} …")


@verb
@writes
def merge(screen: WriteScreen) -> None:
    session = screen.session
    session.keep()
    session.story.end_typing()
    session.together(lambda: session.story.merge(session.node))
    screen.notify("The last two nodes are one.")


@verb
def search(screen: WriteScreen) -> None:
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


@verb
def bookmarks(screen: WriteScreen) -> None:
    nodes = screen.session.story.bookmarks()
    _choose(screen, "Bookmarks", node_choices(screen, nodes), "Nothing is bookmarked yet.")


@verb
def history(screen: WriteScreen) -> None:
    screen.session.keep()
    story = screen.session.story
    way = [node for node in story.path(screen.session.node) if node != ROOT]
    choices = node_choices(screen, reversed(way))
    _choose(screen, "The way here, newest first", choices, "Nothing is written yet.")
