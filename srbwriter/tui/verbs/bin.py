"""The bin: what was deleted is kept there and can come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.story import NodeId
from srbwriter.tui.screens.picker import Choice, Picker
from srbwriter.tui.verbs import verb

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk

_MOST = 500  # the newest of what is in the bin


@verb
def bin_(desk: Desk) -> None:
    desk.commit()
    story = desk.session.story
    choices = [
        Choice(node.id, " ".join(node.text.split())[:60], preview=node.text.strip())
        for node in story.nodes(story.bin()[:_MOST])
        if node.text.strip()
    ]
    if not choices:
        desk.say("The bin is empty.")
        return

    def chosen(node: NodeId | None) -> None:
        if node is not None:
            desk.guarded(lambda: _bring_back(desk, node))

    desk.bench.push_screen(Picker("The bin, newest first: enter brings it back", choices), chosen)


def _bring_back(desk: Desk, node: NodeId) -> None:
    desk.session.story.restore(node)
    desk.revisit(node)
