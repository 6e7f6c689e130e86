"""Commands that look at the tree and go about in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from srbwriter.story import ROOT, NodeId
from srbwriter.tui.screens.ask import Ask
from srbwriter.tui.screens.picker import Choice, Picker
from srbwriter.tui.screens.tree import TreeScreen, Way
from srbwriter.tui.verbs import verb
from srbwriter.tui.welcome import writes
from srbwriter.tui.widgets.tree_view import marks_words

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk

_MATCH = str.maketrans("", "", "\x02\x03")


def _go(desk: Desk, way: Way | None) -> None:
    if way is not None:
        desk.guarded(lambda: desk.revisit(way.node, write=way.write))


def _choose(desk: Desk, title: str, choices: list[Choice], nothing: str) -> None:
    if not choices:
        desk.say(nothing)
        return

    def chosen(node: NodeId | None) -> None:
        _go(desk, None if node is None else Way(node))

    desk.bench.push_screen(Picker(title, choices), chosen)


def node_choices(desk: Desk, nodes: Iterable[NodeId]) -> list[Choice]:
    """An entry for each of ``nodes``: its first words, its marks, all of its words."""
    story = desk.session.story
    found: list[Choice] = []
    for node in story.nodes(list(nodes)):
        line = " ".join(node.text.split())
        found.append(
            Choice(node.id, line[:60] or "(no words)", marks_words(story, node.id), node.text.strip())
        )
    return found


@verb
def tree(desk: Desk) -> None:
    desk.session.keep()
    screen = TreeScreen(desk.session, lambda: search(desk))
    desk.bench.push_screen(screen, lambda way: _go(desk, way))


@verb
def parent(desk: Desk) -> None:
    desk.session.keep()
    above = desk.session.story.parent(desk.session.node)
    if above is None:
        desk.say("This is the beginning.")
    else:
        desk.revisit(above)


@verb
@writes
def write_from(desk: Desk) -> None:
    place, whole = desk.editor.place, desk.editor.whole
    desk.session.write_from(place)
    desk.show_story()
    desk.flush()
    if whole[place:].strip():
        desk.say("What followed is another branch now; undo brings it back.")


@verb
@writes
def split(desk: Desk) -> None:
    node = desk.session.split_at(desk.editor.place)
    first = " ".join(desk.session.story.node(node).text.split()[:4])
    desk.say(f"A node of its own begins with: {first} …")


@verb
@writes
def merge(desk: Desk) -> None:
    session = desk.session
    session.keep()
    session.story.end_typing()
    session.together(lambda: session.story.merge(session.node))
    desk.say("The last two nodes are one.")


@verb
def search(desk: Desk) -> None:
    desk.session.keep()

    def answered(words: str | None) -> None:
        if not words:
            return
        hits = desk.session.story.search(words)
        texts = {node.id: node.text for node in desk.session.story.nodes([hit.node for hit in hits])}
        choices = [
            Choice(hit.node, " ".join(hit.snippet.translate(_MATCH).split()), preview=texts[hit.node])
            for hit in hits
        ]
        while desk.bench.screen is not desk:
            desk.bench.pop_screen()
        _choose(desk, f"Branches with {words}", choices, f"No branch has {words}.")

    desk.bench.push_screen(Ask("Words to find in all branches"), answered)


@verb
def bookmarks(desk: Desk) -> None:
    nodes = desk.session.story.bookmarks()
    _choose(desk, "Bookmarks", node_choices(desk, nodes), "Nothing is bookmarked yet.")


@verb
def history(desk: Desk) -> None:
    desk.session.keep()
    story = desk.session.story
    way = [node for node in story.path(desk.session.node) if node != ROOT]
    _choose(desk, "The way here, newest first", node_choices(desk, reversed(way)), "Nothing is written yet.")
