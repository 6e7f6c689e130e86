"""Commands of the program: finding commands, help, looks, settings, the log, leaving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.command import CommandPalette

from srbwriter.tui.commands import by_id
from srbwriter.tui.screens.help import Help
from srbwriter.tui.screens.jump import Jump
from srbwriter.tui.screens.logview import LogView
from srbwriter.tui.screens.reading import Reading
from srbwriter.tui.screens.settings import SettingsScreen
from srbwriter.tui.screens.theme import choose_theme
from srbwriter.tui.verbs import verb
from srbwriter.tui.widgets.branch_pane import BranchPane

if TYPE_CHECKING:
    from srbwriter.tui.screens.desk import Desk


@verb
def palette(desk: Desk) -> None:
    desk.bench.push_screen(CommandPalette(placeholder="a command …"))


@verb
def help(desk: Desk) -> None:
    desk.bench.push_screen(Help(desk.bench, isinstance(desk.focused, BranchPane)))


@verb
def settings(desk: Desk) -> None:
    desk.bench.push_screen(SettingsScreen(desk.bench))


@verb
def log(desk: Desk) -> None:
    desk.bench.push_screen(LogView())


@verb
def theme(desk: Desk) -> None:
    choose_theme(desk.bench)


@verb
def jump(desk: Desk) -> None:
    def chosen(index: int | None) -> None:
        if index is not None:
            desk.grid.go(index)

    desk.bench.push_screen(Jump(desk.grid.shown), chosen)


@verb
def read(desk: Desk) -> None:
    command = by_id()["read"]
    keys = [*desk.bench.keys(command), *desk.bench.anywhere(command)]
    desk.bench.push_screen(Reading(desk.editor.whole, desk.bench.text_width, keys))


@verb
def suspend(desk: Desk) -> None:
    desk.session.keep()
    desk.bench.action_suspend_process()


@verb
def leader(desk: Desk) -> None:
    desk.lead()


@verb
def quit(desk: Desk) -> None:
    if desk.exchange.may_leave():
        desk.leave()
