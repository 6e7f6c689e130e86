"""Commands that show something: the tree, branches, layouts, and the program's own screens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import CommandPalette
from textual.theme import ThemeProvider

from srbwriter.story import NodeId
from srbwriter.story.search import search_tree
from srbwriter.tui import options
from srbwriter.tui.commands import MENU, READING, command
from srbwriter.tui.dialogs.ask import Ask
from srbwriter.tui.dialogs.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.tui.app import App
    from srbwriter.tui.write.branch_pane import BranchPane
    from srbwriter.tui.write.screen import WriteScreen


TREE, VIEW, PROGRAM = "The tree", "View", "Program"

_MOST, _LINE = 500, 100  # deleted branches that are listed, the newest; characters of one in a list


@command(TREE, "The tree", anywhere="f3")
async def tree(screen: WriteScreen) -> None:
    """Show every branch ever written; go to one and continue there."""
    from srbwriter.tui.tree.screen import TreeScreen

    screen.session.keep()
    node = await screen.app.ask(TreeScreen(screen.session, lambda: screen.run("search")))
    if node is not None:
        revisit(screen, node)


def revisit(screen: WriteScreen, node: NodeId) -> None:
    """Go to another node of the tree."""
    screen.session.revisit(node)
    screen.show_story()
    screen.leave_panes()


@command(TREE, "Search the tree")
async def search(screen: WriteScreen) -> None:
    """Find words in all branches, including those not picked."""
    screen.session.keep()

    if words := await screen.app.ask(Ask("Words to find in all branches")):
        hits = search_tree(screen.session.story, words)
        while hits and not screen.on_top:
            screen.app.screen.dismiss()
        await _choose_node(screen, f"Branches with {words}", hits, f"No branch has {words}.", hits)


@command(TREE, "Bookmarks")
async def bookmarks(screen: WriteScreen) -> None:
    """Go to a bookmarked branch."""
    story = screen.session.story
    nodes = [node for node in story.reading_order() if story.node(node).bookmark]
    await _choose_node(screen, "Bookmarks", nodes, "Nothing is bookmarked yet.")


@command(TREE, "The bin")
async def bin_(screen: WriteScreen) -> None:
    """Restore a deleted branch."""
    screen.session.keep()
    nodes = screen.session.story.bin()[:_MOST]
    await _choose_node(screen, "The bin, newest first: enter restores it", nodes, "The bin is empty.")


async def _choose_node(
    screen: WriteScreen, title: str, nodes: Iterable[NodeId], nothing: str,
    snippets: Mapping[NodeId, str] | None = None,
) -> None:  # fmt: skip
    """Let the writer choose one of ``nodes``, which are shown by their ``snippets`` or first words, and go
    there; a deleted one is restored."""
    from srbwriter.tui.tree.view import marks_words

    story, choices = screen.session.story, list[Choice]()
    for node in story.nodes(list(nodes)):
        line = " ".join((snippets[node.id] if snippets else node.text).split())[:_LINE]
        if node.text.strip():
            choices.append(Choice(node.id, line, marks_words(story, node.id), node.text.strip()))

    if not choices:
        screen.notify(nothing)
    elif (node := await screen.app.ask(Picker(title, choices))) is not None:
        if node in story.bin():
            story.restore(node)
        revisit(screen, node)


@command(VIEW, "Story or branches", anywhere="tab", foot="switch")
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
def scroll(screen: WriteScreen, pane: BranchPane, number: int) -> None:
    """Scroll by a page, to the end, where the branch follows new text, or to the beginning."""
    steps = (lambda: pane.page(1), lambda: pane.page(-1), pane.follow_end, pane.rewind_view)
    steps[number - 1]()


@command(VIEW, "Next layout", anywhere="ctrl+l")
def layout(screen: WriteScreen) -> None:
    """Put branches below the story, or on its right."""
    screen.app.change(options.LAYOUT, "below" if screen.layout_here() == "right" else "right")


@command(VIEW, "Write in quiet", anywhere="ctrl+t")
def quiet(screen: WriteScreen) -> None:
    """Show only the story, with the cursor line in the middle; again, or esc, to show everything."""
    screen.be_quiet(not screen.quiet)
    if screen.quiet:
        screen.notify("esc shows everything again.")


@command(PROGRAM, "Quit", anywhere="ctrl+q", foot="quit")
def quit(screen: WriteScreen) -> None:
    """Leave the program; every word is saved."""
    if screen.app.transfers.may_leave():
        screen.app.leave()


@command(PROGRAM, "Settings", anywhere="f2,f10")
def settings(screen: WriteScreen) -> None:
    """Change how branches are written, and how the program works."""
    from srbwriter.tui.dialogs.settings import SettingsDialog

    screen.app.push_screen(SettingsDialog(screen))


@command(PROGRAM, "Help", "question_mark", anywhere="f1", foot="help")
def help(screen: WriteScreen) -> None:
    """Show the keys that work here, or hide them."""
    screen.action_help()


@command(PROGRAM, "Menu of commands", anywhere=MENU, foot="menu")
def menu(screen: WriteScreen) -> None:
    """Find any command by a word, and run it."""
    screen.app.action_command_palette()


class _Themes(ThemeProvider):
    """The themes as Textual's palette lists them; the chosen one is kept."""

    @property
    def commands(self) -> list[tuple[str, Callable[[], None]]]:
        app = cast("App", self.app)  # pyright: ignore[reportUnknownMemberType]
        return [(name, partial(app.change, options.THEME, name)) for name in sorted(app.available_themes)]


@command(VIEW, "Theme")
def theme(screen: WriteScreen) -> None:
    """Choose the colours."""
    screen.app.load_themes()
    screen.app.push_screen(CommandPalette([_Themes], placeholder="Theme …"))
