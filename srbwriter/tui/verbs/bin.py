"""The bin: what was deleted is kept there and can come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.story import NodeId
from srbwriter.tui.screens.picker import Picker
from srbwriter.tui.verbs import verb
from srbwriter.tui.verbs.tree import node_choices

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk

_MOST = 500  # the newest of what is in the bin


@verb
def bin_(desk: Desk) -> None:
    desk.session.keep()
    deleted = node_choices(desk, desk.session.story.bin()[:_MOST])
    choices = [choice for choice in deleted if choice.preview]
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
