"""The bin: what was deleted is kept there and can come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.story import NodeId
from srbwriter.tui.actions import verb
from srbwriter.tui.actions.tree import node_choices
from srbwriter.tui.screens.picker import Picker

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen

_MOST = 500  # the newest of what is in the bin


@verb
def bin_(screen: WriteScreen) -> None:
    screen.session.keep()
    deleted = node_choices(screen, screen.session.story.bin()[:_MOST])
    choices = [choice for choice in deleted if choice.preview]
    if not choices:
        screen.notify("The bin is empty.")
        return

    def chosen(node: NodeId | None) -> None:
        if node is not None:
            screen.guarded(lambda: _bring_back(screen, node))

    screen.app.push_screen(Picker("The bin, newest first: enter brings it back", choices), chosen)


def _bring_back(screen: WriteScreen, node: NodeId) -> None:
    screen.session.story.restore(node)
    screen.revisit(node)
