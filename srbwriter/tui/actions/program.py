"""Commands of the program: finding commands, help, looks, settings, the log, leaving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.command import CommandPalette

from srbwriter.tui.actions import verb
from srbwriter.tui.commands import by_id
from srbwriter.tui.screens.help import Help
from srbwriter.tui.screens.jump import Jump
from srbwriter.tui.screens.logview import LogView
from srbwriter.tui.screens.reading import Reading
from srbwriter.tui.screens.settings import SettingsScreen
from srbwriter.tui.screens.theme import choose_theme
from srbwriter.tui.widgets.branch_pane import BranchPane

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen


@verb
def palette(screen: WriteScreen) -> None:
    screen.app.push_screen(CommandPalette(placeholder="a command …"))


@verb
def help(screen: WriteScreen) -> None:
    screen.app.push_screen(Help(isinstance(screen.focused, BranchPane)))


@verb
def settings(screen: WriteScreen) -> None:
    screen.app.push_screen(SettingsScreen())


@verb
def log(screen: WriteScreen) -> None:
    screen.app.push_screen(LogView())


@verb
def theme(screen: WriteScreen) -> None:
    choose_theme(screen.app)


@verb
def jump(screen: WriteScreen) -> None:
    def chosen(index: int | None) -> None:
        if index is not None:
            screen.grid.go(index)

    screen.app.push_screen(Jump(screen.grid.shown), chosen)


@verb
def read(screen: WriteScreen) -> None:
    command = by_id()["read"]
    keys = [*screen.app.keys(command), *screen.app.anywhere(command)]
    screen.app.push_screen(Reading(screen.editor.whole, screen.app.text_width, keys))


@verb
def suspend(screen: WriteScreen) -> None:
    screen.session.keep()
    screen.app.action_suspend_process()


@verb
def leader(screen: WriteScreen) -> None:
    screen.lead()


@verb
def quit(screen: WriteScreen) -> None:
    if screen.transfers.may_leave():
        screen.leave()
