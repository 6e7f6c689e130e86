"""Commands that change the view: focus, layout, scrolling, and the program's own screens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui import options, themes
from srbwriter.tui.commands import MENU, READING, command
from srbwriter.tui.dialogs.base import switch_help
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.dialogs.settings import SettingsDialog
from srbwriter.tui.story.reading import LogView, Reading

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


VIEW = "View"


@command(VIEW, "Story or branches", anywhere="tab")
def switch(screen: WriteScreen) -> None:
    """Move between the story and the branches."""
    if screen.arrangement.quiet:
        screen.rearrange(quiet=False)
    if (screen.editor.has_focus or screen.unchosen) and screen.grid.pane is not None:
        screen.choose_pane()
    else:
        screen.go_to_story()


@command(VIEW, "Branch to the left", "left")
def left(screen: WriteScreen) -> None:
    """Go to the branch on the left; if none is chosen, choose one."""
    _step(screen, -1, 0)


def _step(screen: WriteScreen, columns: int, rows: int) -> None:
    """Go to a neighbour of the chosen branch; if none is chosen, choose one."""
    if screen.unchosen:
        screen.choose_pane()
    else:
        screen.grid.step(columns, rows)


@command(VIEW, "Branch to the right", "right")
def right(screen: WriteScreen) -> None:
    """Go to the branch on the right; if none is chosen, choose one."""
    _step(screen, 1, 0)


@command(VIEW, "Branch above", "up")
def up(screen: WriteScreen) -> None:
    """Go to the branch above; if none is chosen, choose one."""
    _step(screen, 0, -1)


@command(VIEW, "Branch below", "down")
def down(screen: WriteScreen) -> None:
    """Go to the branch below; if none is chosen, choose one."""
    _step(screen, 0, 1)


@command(READING, "Read on in this branch", "pagedown")
def read_on(screen: WriteScreen) -> None:
    """Scroll the branch down a page."""
    if screen.grid.pane is not None:
        screen.grid.pane.page(1)


@command(READING, "Read back in this branch", "pageup")
def read_back(screen: WriteScreen) -> None:
    """Scroll the branch up a page; it stays there."""
    if screen.grid.pane is not None:
        screen.grid.pane.page(-1)


@command(READING, "Follow this branch", "end")
def follow(screen: WriteScreen) -> None:
    """Keep the end of the branch in view while it grows."""
    if screen.grid.pane is not None:
        screen.grid.pane.follow_end()


@command(READING, "To the branch's beginning", "home")
def from_start(screen: WriteScreen) -> None:
    """Scroll to the beginning of the branch."""
    if screen.grid.pane is not None:
        screen.grid.pane.rewind_view()


@command(VIEW, "Next layout", anywhere="ctrl+l")
def layout(screen: WriteScreen) -> None:
    """Put branches below the story, on its right, or all in one column."""
    chosen = screen.arrangement.next_layout(screen.app.size.width)
    screen.app.preferences.put(options.LAYOUT, chosen)
    screen.rearrange(layout=chosen)


@command(VIEW, "Write in quiet", anywhere="ctrl+t")
def quiet(screen: WriteScreen) -> None:
    """Show only the story, with the cursor line in the middle; again, or esc, to show everything."""
    screen.rearrange(quiet=not screen.arrangement.quiet)
    if screen.arrangement.quiet:
        screen.notify("esc shows everything again.")


@command(VIEW, "One branch, large", anywhere="f9")
def single(screen: WriteScreen) -> None:
    """Show only this branch; again for all of them."""
    screen.rearrange(large=not screen.arrangement.large)
    screen.choose_pane()


@command(VIEW, "Read mode", anywhere="ctrl+r")
def read(screen: WriteScreen) -> None:
    """Show the story as a clean page; again to go back."""
    screen.app.push_screen(Reading(screen.editor.text, screen.app.text_width))


PROGRAM = "Program"


@command(PROGRAM, "Engine figures", "q")
def figures(screen: WriteScreen) -> None:
    """Show the engine's figures in the bottom line and the panes' heads: model, context, speed; again to
    hide."""
    screen.rearrange(figures=not screen.arrangement.figures)


@command(PROGRAM, "The log", anywhere="f12")
def log(screen: WriteScreen) -> None:
    """Show the messages of the program and of the model library."""
    screen.app.push_screen(LogView())


@command(PROGRAM, "Quit", anywhere="ctrl+q")
def quit(screen: WriteScreen) -> None:
    """Leave the program; every word is saved."""
    if screen.app.transfers.may_leave() and screen.app.fetch.may_leave(screen):
        screen.app.leave()


@command(PROGRAM, "Settings", anywhere="f2,f10")
def settings(screen: WriteScreen) -> None:
    """Change how branches are written, and how the program works."""
    screen.app.push_screen(SettingsDialog(screen))


@command(PROGRAM, "Help", "question_mark", anywhere="f1")
def help(screen: WriteScreen) -> None:
    """Show the keys that work here, or hide them."""
    switch_help(screen)


@command(PROGRAM, "Menu of commands", anywhere=MENU)
def menu(screen: WriteScreen) -> None:
    """Find any command by a word, and run it."""
    screen.app.action_command_palette()


@command(VIEW, "Theme")
def theme(screen: WriteScreen) -> None:
    """Choose the colours; moving through the list previews each theme, escape restores the old one."""
    app = screen.app
    before = app.theme
    app.load_themes()
    known = set(app.available_themes)
    choices = [Choice(name, themes.title(file)) for name, file in themes.files().items() if name in known]

    def chosen(name: str | None) -> None:
        app.show_theme(name or before)
        if name is not None:
            app.preferences.put(options.THEME, name)

    foot = f"enter keeps it · {{keys}} · your own belong in {themes.own_folder()}"
    app.push_screen(
        Picker("Themes", choices, at=before, looked=app.show_theme, foot=foot, aside=True), chosen
    )
