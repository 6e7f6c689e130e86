"""Commands that change the view: focus, layout, scrolling, and the program's own screens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui import options, themes
from srbwriter.tui.commands import MENU, READING, command
from srbwriter.tui.dialogs.base import switch_help
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.dialogs.settings import SettingsDialog

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


VIEW = "View"


@command(VIEW, "Story or branches", anywhere="tab")
def switch(screen: WriteScreen) -> None:
    """Move between the story and the branches."""
    screen.be_loud()
    if (screen.editor.has_focus or screen.unchosen) and screen.grid.pane is not None:
        screen.choose_pane()
    else:
        screen.go_to_story()


_STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))


@command(VIEW, "Another branch", "left,right,up,down", numbered=True)
def go(screen: WriteScreen, number: int) -> None:
    """Go to the branch on the left, on the right, above or below; if none is chosen, choose one."""
    if screen.unchosen:
        screen.choose_pane()
    else:
        screen.grid.step(*_STEPS[number - 1])


@command(READING, "Scroll this branch", "pagedown,pageup,end,home", numbered=True)
def scroll(screen: WriteScreen, number: int) -> None:
    """Scroll by a page, to the end, where the branch follows what is written, or to the beginning."""
    if (pane := screen.grid.pane) is not None:
        steps = (lambda: pane.page(1), lambda: pane.page(-1), pane.follow_end, pane.rewind_view)
        steps[number - 1]()


@command(VIEW, "Next layout", anywhere="ctrl+l")
def layout(screen: WriteScreen) -> None:
    """Put branches below the story, or on its right."""
    screen.layout_name = "below" if screen.layout_here() == "right" else "right"
    screen.app.preferences.put(options.LAYOUT, screen.layout_name)
    screen.rearrange()


@command(VIEW, "Write in quiet", anywhere="ctrl+t")
def quiet(screen: WriteScreen) -> None:
    """Show only the story, with the cursor line in the middle; again, or esc, to show everything."""
    screen.be_quiet(not screen.quiet)
    if screen.quiet:
        screen.notify("esc shows everything again.")


PROGRAM = "Program"


@command(PROGRAM, "Engine figures", "q")
def figures(screen: WriteScreen) -> None:
    """Show the engine's figures at the foot: model, context, speed; again to hide."""
    screen.figures = not screen.figures


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
    before, files = app.theme, app.load_themes()
    choices = [Choice(file.stem, themes.title(file)) for file in files]
    choices += [Choice(name, name) for name in app.available_themes if name not in {f.stem for f in files}]

    def chosen(name: str | None) -> None:
        app.show_theme(name or before)
        if name is not None:
            app.preferences.put(options.THEME, name)

    foot = f"enter keeps it · {{keys}} · your own belong in {themes.own_folder()}"
    app.push_screen(
        Picker("Themes", choices, at=before, looked=app.show_theme, foot=foot, aside=True), chosen
    )
