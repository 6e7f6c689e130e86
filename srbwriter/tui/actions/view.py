"""Commands that change the view: focus, layout, scrolling, and the program's own screens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.tui import options
from srbwriter.tui.commands import MENU, READING, command
from srbwriter.tui.dialogs.choices import choose_theme
from srbwriter.tui.dialogs.help import Help
from srbwriter.tui.dialogs.picker import Jump
from srbwriter.tui.dialogs.settings import SettingsScreen
from srbwriter.tui.story.reading import LogView, Reading
from srbwriter.tui.write.branch_pane import BranchPane

if TYPE_CHECKING:
    from srbwriter.tui.program import Writer


VIEW = "View"


@command(VIEW, "Story or branches", anywhere="tab")
def switch(screen: Writer) -> None:
    """Move between the story and the branches."""
    if screen.arrangement.quiet:
        screen.rearrange(quiet=False)
    if (screen.editor.has_focus or screen.unchosen) and screen.grid.pane is not None:
        screen.choose_pane()
    else:
        screen.go_to_story()


@command(VIEW, "Branch to the left", "left")
def left(screen: Writer) -> None:
    """Go to the branch on the left; if none is chosen, choose one."""
    _step(screen, -1, 0)


def _step(screen: Writer, columns: int, rows: int) -> None:
    """Go to a neighbour of the chosen branch; if none is chosen, choose one."""
    if screen.unchosen:
        screen.choose_pane()
    else:
        screen.grid.step(columns, rows)


@command(VIEW, "Branch to the right", "right")
def right(screen: Writer) -> None:
    """Go to the branch on the right; if none is chosen, choose one."""
    _step(screen, 1, 0)


@command(VIEW, "Branch above", "up")
def up(screen: Writer) -> None:
    """Go to the branch above; if none is chosen, choose one."""
    _step(screen, 0, -1)


@command(VIEW, "Branch below", "down")
def down(screen: Writer) -> None:
    """Go to the branch below; if none is chosen, choose one."""
    _step(screen, 0, 1)


@command(READING, "Read on in this branch", "pagedown")
def read_on(screen: Writer) -> None:
    """Scroll the branch down a page."""
    if screen.grid.pane is not None:
        screen.grid.pane.page(1)


@command(READING, "Read back in this branch", "pageup")
def read_back(screen: Writer) -> None:
    """Scroll the branch up a page; it stays there."""
    if screen.grid.pane is not None:
        screen.grid.pane.page(-1)


@command(READING, "Follow this branch", "end")
def follow(screen: Writer) -> None:
    """Keep the end of the branch in view while it grows."""
    if screen.grid.pane is not None:
        screen.grid.pane.follow()


@command(READING, "To the branch's beginning", "home")
def from_start(screen: Writer) -> None:
    """Scroll to the beginning of the branch."""
    if screen.grid.pane is not None:
        screen.grid.pane.rewind_view()


@command(VIEW, "Next layout", anywhere="ctrl+l")
def layout(screen: Writer) -> None:
    """Put branches below the story, on its right, or all in one column."""
    chosen = screen.arrangement.next_layout(screen.app.size.width)
    screen.app.preferences.put(options.LAYOUT, chosen)
    screen.rearrange(layout=chosen)


@command(VIEW, "Write in quiet", anywhere="ctrl+t")
def quiet(screen: Writer) -> None:
    """Show only the story, with the cursor line in the middle; again, or esc, to show everything."""
    screen.rearrange(quiet=not screen.arrangement.quiet)
    if screen.arrangement.quiet:
        screen.notify("esc shows everything again.")


@command(VIEW, "One branch, large", anywhere="f9")
def single(screen: Writer) -> None:
    """Show only this branch; again for all of them."""
    screen.rearrange(large=not screen.arrangement.large)
    screen.choose_pane()


@command(VIEW, "Jump to a branch")
def jump(screen: Writer) -> None:
    """Show a letter on each branch; press one to go there."""
    screen.ask(Jump(screen.grid.shown), screen.grid.go)


@command(VIEW, "Read mode", anywhere="ctrl+r")
def read(screen: Writer) -> None:
    """Show the story as a clean page; again to go back."""
    screen.app.push_screen(Reading(screen.editor.whole, screen.app.text_width))


@command(VIEW, "Theme")
def theme(screen: Writer) -> None:
    """Choose the colours; moving through the list previews each theme."""
    choose_theme(screen.app)


PROGRAM = "Program"


@command(PROGRAM, "Engine figures", "q")
def figures(screen: Writer) -> None:
    """Show the engine's figures in the bottom line and the panes' heads: model, context, speed; again to
    hide."""
    screen.rearrange(figures=not screen.arrangement.figures)


@command(PROGRAM, "Menu of commands", anywhere=f"{MENU},ctrl+p")
def menu(screen: Writer) -> None:
    """Find any command by a word, and run it."""
    screen.app.show_menu()


@command(PROGRAM, "Help", "question_mark", anywhere="f1")
def help(screen: Writer) -> None:
    """Show all keys."""
    screen.app.push_screen(Help(isinstance(screen.app.focused, BranchPane)))


@command(PROGRAM, "All settings", anywhere="f10")
def settings(screen: Writer) -> None:
    """Show every setting, and where its value comes from."""
    screen.app.push_screen(SettingsScreen())


@command(PROGRAM, "The log", anywhere="f12")
def log(screen: Writer) -> None:
    """Show the messages of the program and of the model library."""
    screen.app.push_screen(LogView())


@command(PROGRAM, "Suspend")
def suspend(screen: Writer) -> None:
    """Return to the shell; fg continues the program."""
    screen.session.keep()
    screen.app.action_suspend_process()


@command(PROGRAM, "Quit", anywhere="ctrl+q")
def quit(screen: Writer) -> None:
    """Leave the program; every word is saved."""
    if screen.app.transfers.may_leave() and screen.app.fetch.may_leave(screen):
        screen.app.leave()
