"""The write screen: the story beside its live branches.

It connects the session and the widgets: text goes from the editor to the session, branches from the session
to the panes. Key handlers are in ``srbwriter.tui.actions``.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal
from textual.dom import DOMNode
from textual.geometry import Size
from textual.widgets import Static

from srbwriter.engine.types import EngineError
from srbwriter.session.ahead import LookAhead
from srbwriter.session.tokens import Tokens
from srbwriter.story import Edit, StoryError
from srbwriter.story.spans import edit_between
from srbwriter.tui import actions as actions  # each of its modules declares commands
from srbwriter.tui import options
from srbwriter.tui.commands import AT_ONCE, COMMANDS, branch_bindings, screen_bindings
from srbwriter.tui.dialogs.base import AppScreen, KeyLine, Page
from srbwriter.tui.dialogs.trouble import crash_words
from srbwriter.tui.story.side_panel import BESIDE, LASTS, SidePanel
from srbwriter.tui.write import colours, status
from srbwriter.tui.write.branch_grid import BranchGrid
from srbwriter.tui.write.branch_pane import BranchPane
from srbwriter.tui.write.branch_words import sampling_words
from srbwriter.tui.write.letters import Letters
from srbwriter.tui.write.notices import Notices
from srbwriter.tui.write.pump import Pump
from srbwriter.tui.write.story_editor import StoryEditor
from srbwriter.tui.write.welcome import receive, refuse

if TYPE_CHECKING:
    from srbwriter.session import Round, Session
    from srbwriter.tui.app import App

log = logging.getLogger(__name__)


_TYPING = ("enter", "backspace", "delete")  # in addition to keys with a character
_MARGIN = 2  # cells beside the story, at least
_REST = 0.3  # seconds without a key, after which the footer is made anew
_NARROW, _SHORT = 72, 18  # columns or rows below which one branch is shown at a time
_WIDE, _ROOMY = 140, 30  # columns for branches beside the story; rows for a line about colours


class Branches(BranchGrid):
    """The panes. The focused branch is the chosen one: plain keys are commands."""

    BINDINGS = branch_bindings()


class WriteScreen(AppScreen[None]):
    """Story, panes, side panel, status line and footer."""

    AUTO_FOCUS = "StoryEditor"
    BINDINGS = screen_bindings()

    def __init__(self, session: Session, app: App) -> None:
        super().__init__()
        self.session = session
        self.editor = StoryEditor(self._edit, session.joint, id="story")
        hint = f"{app.way_to('generate')} writes branches"
        self.grid = Branches(session.n, app.preferences[options.PANES] == "end", hint, id="branches")
        self.panel: SidePanel | None = None
        self.legend = Static(id="legend")
        self.status_line = status.StatusLine()
        self.pump = Pump(self)
        self.notices = Notices(self)
        self.letters = Letters(self)
        self.pressed_at = math.inf  # when the key that is being handled was pressed (monotonic seconds)
        self.layout_name: str = app.preferences[options.LAYOUT]
        self.quiet = False  # only the story is shown, with the cursor's line in the middle
        self.defects: list[str] = []  # defects that were reported, each once
        self._begun = False  # the first screen is up
        self._unchosen = False  # no pane has been chosen since the last round or pick, and nothing typed
        self._round: Round | None = None
        self._shown = -1
        self._usual = session.sampling
        self._keys = (False, False)  # that the footer shows: digits pick, "step back" does something
        self._applied_for = Size(0, 0)  # the window size of the last layout

    def compose(self) -> ComposeResult:
        self._lay_out()  # before there is anything that would be styled anew
        width, height = self.size.width, self.size.height - 2
        right = self.has_class("-right")
        self._indent(0 if right else width)  # this and the next may be wrong; then there is a second layout
        self.grid.room = Size(width * 3 // 5, height) if right else Size(width, height * 3 // 5)
        with Horizontal(id="window"), Container(id="panes"):
            yield self.editor
            yield self.grid
        yield self.legend
        yield self.status_line
        yield KeyLine(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.colour()
        self.screen_layout_refresh_signal.subscribe(  # pyright: ignore[reportUnknownMemberType]
            self, self._fit, immediate=True
        )
        self.show_story()
        self.flush()
        if isinstance(cursor := self.session.view.get("cursor"), int):
            self.editor.move_to(cursor)
        self.rearrange()
        self.pump.start()
        self.flush_slowly()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        try:
            receive(self)
            self.leave_panes()
        finally:
            self._begun = True
            self.app.keyboard.open()
            self.pump.settle()

    def keep_view(self) -> None:
        """Remember the place of the cursor for the next opening."""
        if self._begun:  # else what is on the disk is still to be shown
            self.session.keep_view({"cursor": self.editor.cursor})

    def on_unmount(self) -> None:
        self.pump.stop()

    # ---- keys

    @property
    def unchosen(self) -> bool:
        return self._unchosen and self.session.round is not None and not self.quiet

    @property
    def on_branch(self) -> bool:
        """Whether a branch is chosen, so that letters are commands."""
        return self.on_top and isinstance(self.focused, BranchPane)

    def is_run_of_commands(self, text: str) -> bool:
        """Return whether ``text``, which arrived at once, is one command of the chosen branch, repeated."""
        key = "space" if text[0] == " " else text[0]
        return self.on_branch and len(set(text)) == 1 and bool(self.app.known_keys.on_branch.get(key))

    def leave_panes(self) -> None:
        self._unchosen = True
        self.grid.current = 0
        self.set_focus(self.editor)
        self._show_keys()

    def choose_pane(self) -> None:
        self.grid.go(self.grid.current)

    def use_key(self, event: events.Key | events.Paste) -> bool:
        """Use a letter on a chosen branch, which may be prose; return True then.

        From the first key for the story on, it gets all keys, including digits.
        """
        self.pressed_at = event.time
        if self.on_branch and isinstance(event, events.Key):
            return self.letters.take(event)
        if self._unchosen and self._is_for_story(event):
            self._unchosen = self.editor.digits_pick = False  # the footer follows, behind the letter
        return False

    def _is_for_story(self, event: events.Key | events.Paste) -> bool:
        """Return whether the story handles a key: typing, or a movement in the text."""
        if isinstance(event, events.Paste):
            return True
        bound = self.active_bindings.get(event.key)
        if bound is not None:
            return bound.node is self.editor
        return event.is_printable or event.key in _TYPING

    @on(events.MouseDown)
    def _pressed(self, event: events.MouseDown) -> None:
        if event.widget is self.editor:
            self._unchosen = False
            self._show_keys()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Leave to the side panel the keys that mean something else in it, and to the text what picks and
        steps back nowhere."""
        command = parameters[0] if action == "run" else None
        if self._in_panel is not None and command in SidePanel.OWN:
            return False
        if command in AT_ONCE:
            return self.unchosen or self.on_branch
        return command != "back" or self._steps_back()

    def run(self, command: str, number: int = 0) -> None:
        known = COMMANDS[command]

        def handle() -> None:
            if known.writes:
                refuse(self.session.story)
            numbers, begun = [number] if known.numbered else [], None
            if not known.needs_branch:
                begun = known.handler(self, *numbers)
            elif (pane := self.grid.pane) is not None and pane.branch is not None:
                begun = known.handler(self, pane, *numbers)
            else:
                self.notify("There is no branch here yet.")
            if begun is not None:
                self.attend(begun)

        if self.session.round is not self._round:
            self.flush()  # the previous key changed the branches, and they have not been painted yet
        self.guarded(handle)

    action_run = run

    def attend(self, begun: Coroutine[Any, Any, object], node: DOMNode | None = None) -> None:
        """Run in a worker what asks the writer or waits; what it refuses is said.

        It ends with the screen, or with another ``node``.
        """

        async def go_on() -> None:
            try:
                await begun
            except Exception as error:
                self.app.write_screen.tell(error)
            self.app.write_screen.guarded(lambda: None)  # shows what has changed

        (node or self).run_worker(go_on())

    def guarded(self, act: Callable[[], object]) -> bool:
        """Do something and show what it has changed, or say what it refuses; return whether it was done."""
        done, before = False, status.round_identity(self.session)
        try:
            act()
            self.flush()
            done = True
        except Exception as error:
            self.tell(error)
        if status.round_identity(self.session) not in (before, None):
            self.leave_panes()
        self.pump.wake()
        self._show_status()
        self._show_keys()
        return done

    def tell(self, error: Exception) -> None:
        """Say what was refused, or that the program has a defect."""
        if isinstance(error, EngineError | StoryError | ValueError | OSError):
            log.warning("refused: %s", error)
            self.notify(str(error), severity="error")
        else:
            self.admit(error)

    def admit(self, error: Exception, again: bool = True) -> None:
        """Report a defect without ending the program; a known one is reported again only with ``again``."""
        known = repr(error) in self.defects
        if again or not known:
            log.error("a defect", exc_info=error)
            self.notify(crash_words(error), severity="error")
        if not known:
            self.defects.append(repr(error))

    def run_chosen(self, command: str) -> None:
        """Run a command of the menu; one for a branch needs a chosen one."""
        known, current = COMMANDS[command], self.session.round
        if not known.needs_branch or self.on_branch:
            self.run(command)
        elif current is not None and current.branches:
            choose = self.app.way_to("switch")
            self.notify(f"“{known.title}” is for a chosen branch. Press {choose} to choose one first.")
        else:
            write = self.app.way_to("generate")
            self.notify(f"“{known.title}” is for a branch, and there is none yet. {write} writes branches.")

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        if self.focused is not self.editor:
            self.be_loud()  # a hidden pane must not receive keys
            self._unchosen = False
        if self._in_panel is None and self.size.width < LASTS:
            self.close_panel()

    @on(events.DescendantFocus)
    @on(events.ScreenSuspend)
    @on(events.ScreenResume)
    def _show_keys(self) -> None:
        """Show where keys go, and what they do."""
        pane, top = self.focused, self.app.screen
        if not self.on_top:
            self.status_line.mode = top.badge if isinstance(top, Page) else "MENU"
        elif (panel := self._in_panel) is not None:
            self.status_line.mode = panel.badge
        elif isinstance(pane, BranchPane):
            self.status_line.mode = f"BRANCH {pane.number}"
        else:
            self.status_line.mode = "STORY" if pane is self.editor or self.unchosen else "—"
        self.editor.digits_pick = self.unchosen
        self.query_one(KeyLine).visible = self.on_top  # the screen above shows its own keys
        if (keys := (self.unchosen or self.on_branch, self._steps_back())) != self._keys:
            self._keys = keys
            self.refresh_bindings()
            self.pump.wake()

    def go_to_story(self) -> None:
        if self.size.width < LASTS:
            self.close_panel()
        self.editor.focus()

    # ---- the side panel

    @property
    def _in_panel(self) -> SidePanel | None:
        """The side panel if it has the keys."""
        panel = self.panel
        return panel if panel is not None and panel.is_mounted and panel.has_focus_within else None

    def open_panel(self, part: str) -> None:
        """Show a part of the side panel and give it the keys; if it has them already, close the panel."""
        if self._in_panel is not None and self.status_line.mode == self._in_panel.BADGES.get(part, "LORE"):
            self.close_panel()
            self.editor.focus()
        elif self.panel is not None:
            self.panel.go(part)
        else:
            self.panel = SidePanel(self.session, part)
            self.query_one("#window").mount(self.panel)
            self.rearrange()

    def close_panel(self) -> None:
        if self.panel is not None:
            self.panel.remove()
            self.panel = None
            self.rearrange()

    # ---- the story

    def _edit(self, edit: Edit, pasted: bool = False) -> None:
        self.session.edit(edit, pasted=pasted)
        self.show_authors()

    def show_story(self, where_changed: bool = False) -> None:
        text, before = self.session.text(), self.editor.text
        place = None
        if where_changed and text != before:
            edit = edit_between(before, text)
            place = edit.start + len(edit.text)
        elif where_changed:
            place = self.editor.cursor
        self.editor.show(text, place)
        self.show_authors()

    def show_authors(self) -> None:
        """Colour the story by author, if the writer has chosen that."""
        story, before, self.editor.authors = self.session.story, self.editor.authors, None
        if self.app.preferences[options.COLOUR_TOKENS] == colours.AUTHOR:
            nodes = story.nodes(story.path(story.current))
            self.editor.authors = colours.Spans((len(s.text), s.author) for node in nodes for s in node.spans)
        if before is not None or self.editor.authors is not None:
            self.editor.update()

    def colour(self) -> None:
        """Apply the colour mode. Log-probabilities are collected only while they are shown."""
        mode, tokens = self.app.preferences[options.COLOUR_TOKENS], Tokens.of(self.session)
        tokens.gather = mode == colours.SURPRISAL
        self.grid.colour(tokens if tokens.gather else None)
        self.legend.update(colours.legend(mode))
        self._lay_out()
        self.show_authors()

    # ---- branches

    @property
    def writing(self) -> bool:
        current = self.session.round
        if current is None:
            return False
        return not current.branches or any(branch.live for branch in current.branches)

    def _steps_back(self) -> bool:
        """Return whether "step back" would stop or close something."""
        if self.quiet or self.helps or self.writing or self.app.transfers.busy:
            return True
        pane = self.grid.pane if self.on_branch else None
        taken = pane is not None and (pane.take is not None or self.app.fetch.model is not None)
        work = self.session.engine_state in ("INIT", "LOADING") or self.session.long_work is not None
        return taken or work

    # ---- painting, called by the pump

    def flush(self, most: int | None = None) -> None:
        current = self.session.round
        if current is not None and current.generation is None and self._shown > 0:
            return  # the round waits for the model: keep showing the previous one
        count = len(current.branches) if current is not None else 0
        if current is not self._round or count != self._shown or not self.grid.shows(current):
            before = self._round
            others = current is not None and before is not None and current.identity is not before.identity
            if current is not before or not self._shown:
                # Later changes of knobs do not apply to these branches, nor those of now to an earlier run's.
                earlier = current.branches if current is not None and not current.taken_up else []
                self._usual = earlier[0].sampling if earlier else self.session.sampling
            if others and isinstance(self.focused, BranchPane):
                self.leave_panes()
            self._round, self._shown = current, count
            blank: list[None] = [None] * self.session.n
            branches = current.branches if current is not None and count else blank
            prefix = current.prefix if current is not None else None
            self.grid.show(branches, current is not None and not others, prefix)
            tokens = Tokens.of(self.session)
            self.grid.colour(tokens if tokens.gather else None)
        self.grid.pull(most)

    def flush_slowly(self) -> None:
        self.app.look()
        self._show_status()
        current, pane = self.session.round, self.grid.pane
        branches = current.branches if current is not None else []
        if pane is not None and not pane.thoughts.end:  # whose pick omits them
            LookAhead.of(self.session).focus(pane.index, pane.take)
        for pane, branch in zip(self.grid.panes, branches, strict=False):
            facts = status.branch_facts(self.session, pane.index, pane.take)
            words = " · ".join(filter(None, [*facts, sampling_words(branch, self._usual)]))
            pane.show_state(words, self.session.stale, self.unchosen or self.on_branch)
        if time.monotonic() - self.app.typed_at > _REST:
            self._show_keys()
        self.notices.watch()
        self.app.show_title(self.session.story.title, self.writing)
        self.keep_view()

    def _show_status(self) -> None:
        """Update the status line: title or long work, save state and words."""
        left = status.left(self.session, self.app.transfers.describe())
        self.status_line.left = (*filter(None, [self.app.fetch.describe()]), *left)
        self.status_line.set_class(self.session.story.save_state.trouble is not None, "-trouble")
        self.status_line.right = status.right(self.session, self.app.preferences[options.GOAL])

    # ---- layout

    def layout_here(self) -> str:
        """Return where the branches are in this window: "right" of the story or "below" it."""
        wide = self.size.width >= _WIDE
        return self.layout_name if self.layout_name != options.AUTO else "right" if wide else "below"

    def be_loud(self) -> None:
        """Show everything again, if only the story is shown."""
        if self.quiet:
            self.be_quiet(False)

    def be_quiet(self, quiet: bool) -> None:
        """Show only the story, with the cursor's line in the middle, or everything again."""
        self.quiet = self.editor.typewriter = quiet
        self.rearrange()
        self.editor.show_cursor()
        if quiet:
            self.editor.focus()

    def rearrange(self) -> None:
        """Divide the window again."""
        self._applied_for = self.size
        self._lay_out()
        self._fit()

    def _lay_out(self) -> None:
        width, height = self.size
        narrow = width < _NARROW or height < _SHORT
        right = self.layout_here() == "right" and not narrow
        covered = self.panel is not None and width < BESIDE
        # In one call: each change of classes restyles the whole screen.
        self.update_classes({"-quiet": self.quiet, "-right": right, "-panel": covered})
        self.grid.single = narrow
        coloured = self.app.preferences[options.COLOUR_TOKENS] != colours.NONE
        self.legend.display = coloured and height >= _ROOMY and not self.quiet
        if self.panel is not None:
            self.panel.lay_out(width)

    def _fit(self, _: object = None) -> None:
        """Make the content fit the last layout.

        Called after every layout. Resize events are not enough: none is sent for a new margin, to a screen
        under a dialog, or to a widget whose size was read between a style change and its layout.
        """
        if self.size != self._applied_for:
            self.rearrange()
            return
        self._indent(self.editor.outer_size.width)
        self.editor.fit()
        self.grid.fit()

    def _indent(self, width: int) -> None:
        """Put the text in the middle of an editor of ``width`` cells."""
        spare = width - 2 * _MARGIN - self.app.preferences[options.TEXT_WIDTH]
        self.editor.styles.padding = (1 if self.size.height > _SHORT else 0, _MARGIN + max(0, spare) // 2)
