"""The write screen: the story beside its live branches.

It connects the session and the widgets: text goes from the editor to the session, branches from the session
to the panes. Key handlers are in ``srbwriter.tui.actions``; ``srbwriter.tui.write.desk`` binds them.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Static

from srbwriter.engine.types import EngineError
from srbwriter.session.ahead import LookAhead
from srbwriter.session.tokens import Tokens
from srbwriter.story import Author, StoryError
from srbwriter.story.edits import same_end, same_start
from srbwriter.tui import options
from srbwriter.tui.commands import COMMANDS
from srbwriter.tui.dialogs.ask import Confirm
from srbwriter.tui.dialogs.base import Page
from srbwriter.tui.dialogs.trouble import crash_words
from srbwriter.tui.widgets import tints
from srbwriter.tui.widgets.lines import KeyLine, StatusLine, TabStrip
from srbwriter.tui.write import status
from srbwriter.tui.write.branch_grid import BranchGrid
from srbwriter.tui.write.branch_pane import BranchPane
from srbwriter.tui.write.branch_words import sampling_words, state_sign
from srbwriter.tui.write.essentials import first_key, key_line_entries
from srbwriter.tui.write.layouts import SHORT, TOO_SMALL, Arrangement
from srbwriter.tui.write.letters import Letters
from srbwriter.tui.write.notices import Notices
from srbwriter.tui.write.pump import Pump
from srbwriter.tui.write.story_colours import Legend, StoryColours
from srbwriter.tui.write.story_editor import Provenance, StoryEditor
from srbwriter.tui.write.view import Focus, View
from srbwriter.tui.write.welcome import receive, refuse

if TYPE_CHECKING:
    from srbwriter.session import Round, Session
    from srbwriter.tui.app import App

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


_TYPING = ("enter", "backspace", "delete")  # in addition to keys with a character
_MARGIN = 2  # cells beside the story, at least


class Branches(Vertical):
    """The container of branches. The focused branch is the chosen one: plain keys are commands."""

    def on_key(self, event: events.Key) -> None:
        """Ignore keys while the window is too small to show branches."""
        if self.screen.has_class("-small"):
            event.stop()


class WriteScreen(Screen[None]):
    """Story, panes, status line and key line."""

    BRANCHES: ClassVar[type[Branches]] = Branches
    CSS_PATH = "screen.tcss"
    AUTO_FOCUS = "StoryEditor"

    def __init__(self, session: Session, app: App) -> None:
        super().__init__()
        self.session = session
        self.editor = StoryEditor(session.edit, session.joint, id="story")
        self.grid = BranchGrid(id="branches")
        self.grid.follows = app.preferences[options.PANES] == "end"
        self.status_line = StatusLine()
        self.key_line = KeyLine()
        self.legend = Legend()
        self.strip = TabStrip()
        self.right = self.BRANCHES(id="right")
        self.pump = Pump(self, app.preferences[options.FPS])
        self.notices = Notices(self)
        self.letters = Letters(self)
        self.pressed_at = math.inf  # when the key that is being handled was pressed (monotonic seconds)
        self._today = status.WordsToday(session)
        self._left = View.from_json(session.view)  # what the writer left here; None if nothing is known
        self._begun = False  # the first screen is up
        large = self._left is not None and self._left.large
        self.arrangement = Arrangement(app.preferences[options.LAYOUT], large)
        self._unchosen = False  # no pane has been chosen since the last round or pick, and nothing typed
        self._pane_chosen = False  # a pane has been chosen since the last round or pick
        self._load_watch = status.Watch()
        if self._left is not None:
            self.grid.sort_by(self._left.order)
        self._colours = StoryColours(session)
        self.defects: list[str] = []  # defects that were reported, each once
        self._round: Round | None = None
        self._shown = -1
        self._usual = session.sampling
        self._applied_for = Size(0, 0)  # the window size of the last layout
        self.grid.hint = f"{app.way_to('generate')} writes branches"

    if TYPE_CHECKING:

        @property
        def app(self) -> App: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    def compose(self) -> ComposeResult:
        self._lay_out()  # before there is anything that would be styled anew
        yield Static(TOO_SMALL, id="too-small")
        with Container(id="panes"):
            yield self.editor
            with self.right:
                yield self.strip
                yield self.grid
        yield self.legend
        yield self.status_line
        yield self.key_line

    def on_mount(self) -> None:
        self.colour()
        self.screen_layout_refresh_signal.subscribe(  # pyright: ignore[reportUnknownMemberType]
            self, self._fit, immediate=True
        )
        # The key itself goes first.
        self.show_story()
        self.flush()
        if self._left is not None:
            self._show_as_left(self._left)
        self.rearrange()
        self.pump.start()
        self.flush_slowly()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        try:
            receive(self)
            if not self._focus_as_left():
                self.leave_panes()
        finally:
            self._begun = True
            self.app.keyboard.open(asked=isinstance(self.app.screen, Confirm))
            self.pump.settle()

    def _show_as_left(self, left: View) -> None:
        """Show the cursor of the story and the panes as the writer left them."""
        self.editor.move_to(left.cursor)
        current = self.session.round
        if current is None or len(left.panes) != len(current.branches):
            return
        self.grid.order(left.panes, current.identity)
        for index, chars in left.takes:
            if index < len(left.panes):
                self.grid.panes[index].take_to(chars)

    def _focus_as_left(self) -> bool:
        """Give the keys to what had them; return False if that is unknown, or the story with no pane chosen.

        A branch does not get keys that were typed before it could be seen.
        """
        left = self._left
        if left is None or left.pane >= self._shown:
            return False
        chosen = left.focus == "branch" and not self.app.keyboard.has_waiting
        if not chosen and left.focus != "story":
            return False
        self.grid.go(left.pane, focus=chosen)
        self._show_keys()
        return True

    def keep_view(self) -> None:
        if not self._begun:
            return  # what is on the disk is still to be shown
        focus: Focus = "none" if self._unchosen else "story"
        if isinstance(self.focused, BranchPane):
            focus = "branch"
        panes = self.grid.shown_order if self._shown > 0 else ()
        takes = ((index, self.grid.panes[index].take) for index in panes)
        chosen = tuple((index, take) for index, take in takes if take is not None)
        view = View(
            self.editor.cursor, focus, self.grid.current, self.grid.sorting, panes, self.arrangement.large,
            chosen,
        )  # fmt: skip
        self.session.keep_view(view.to_json())

    def on_unmount(self) -> None:
        self.pump.stop()

    # ---- keys

    @property
    def on_top(self) -> bool:
        return self.app.screen is self

    @property
    def unchosen(self) -> bool:
        hidden = self.arrangement.quiet or self.has_class("-small")
        return self._unchosen and self.session.round is not None and not hidden

    @property
    def on_branch(self) -> bool:
        """Whether a branch is chosen, so that letters are commands."""
        return self.on_top and isinstance(self.focused, BranchPane)

    def is_run_of_commands(self, text: str) -> bool:
        """Return whether ``text``, which arrived at once, is one command of the chosen branch, repeated."""
        key = "space" if text[0] == " " else text[0]
        return self.on_branch and len(set(text)) == 1 and bool(self.app.known_keys.on_branch.get(key))

    def leave_panes(self) -> None:
        self._unchosen, self._pane_chosen = True, False
        self.grid.current = 0
        self.set_focus(self.editor)
        if self.focused is not self.editor:  # it is hidden while one branch fills the screen
            self.set_focus(None)
        self._show_keys()

    def choose_pane(self) -> None:
        self.grid.go(self.grid.current)

    def use_key(self, event: events.Key | events.Paste) -> bool:
        """Use a key that means something else here than for the widget with the focus; return True then.

        While no pane is chosen, digits pick and arrows choose one; on a chosen branch letters may be prose.
        """
        self.pressed_at = event.time
        if self.on_branch and isinstance(event, events.Key):
            return self.letters.take(event)
        if not self.unchosen:
            self._note_typing(event)
            return False
        key = event.key if isinstance(event, events.Key) else ""
        command, _, number = self.app.known_keys.on_branch.get(key, "").partition(".")
        if key.isdecimal() and command == "pick_number":
            self.run(command, int(number))
            return True
        if command == "go" and isinstance(event, events.Key) and not event.is_printable:
            self.choose_pane()
            return True
        self._note_typing(event)
        return False

    def _note_typing(self, event: events.Key | events.Paste) -> None:
        """From the first key for the story on, send it all keys, including digits."""
        if self._unchosen and self._is_for_story(event):
            self._unchosen = False
            self._show_keys()

    def _is_for_story(self, event: events.Key | events.Paste) -> bool:
        """Return whether the story handles a key: typing, or a movement in the text."""
        if isinstance(event, events.Paste):
            return True
        if event.key in self.app.known_keys.controls:
            return False
        bound = self.active_bindings.get(event.key)
        moves = bound is not None and bound.node is self.editor
        return event.is_printable or event.key in _TYPING or moves

    def wants_in_story(self, event: events.Key | events.Paste) -> bool:
        """Return whether a paste, or a key without another receiver, should go to the unfocused story."""
        if self.focused is self.editor:
            return False
        return isinstance(event, events.Paste) or (self.focused is None and self._is_for_story(event))

    @on(events.MouseDown)
    def _pressed(self, event: events.MouseDown) -> None:
        if event.widget is self.editor:
            self._unchosen = False
            self._show_keys()

    def action_run(self, command: str, number: int = 0) -> None:
        self.run(command, number)

    def run(self, command: str, number: int = 0) -> None:
        known = COMMANDS[command]

        def handle() -> None:
            if known.writes:
                refuse(self.session.story)
            numbers = [number] if known.numbered else []
            if not known.needs_branch:
                known.handler(self, *numbers)
            elif (pane := self.grid.pane) is not None and pane.branch is not None:
                known.handler(self, pane, *numbers)
            else:
                self.notify("There is no branch here yet.")

        if self.session.round is not self._round:
            self.flush()  # the previous key changed the branches, and they have not been painted yet
        self.guarded(handle)

    def guarded(self, act: Callable[[], object]) -> bool:
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
        self._show_work()
        self._show_saved()
        self._show_keys()
        return done

    def tell(self, error: Exception) -> None:
        """Say what was refused, or that the program has a defect."""
        if isinstance(error, EngineError | StoryError | ValueError | OSError):
            log.warning("refused: %s", error)
            self.notify(str(error), severity="error")
        else:
            self.admit(error)

    def ask(self, dialog: Screen[Answer], then: Callable[[Answer], object]) -> None:
        def answered(answer: Answer | None) -> None:
            if answer is not None:
                self.guarded(lambda: then(answer))

        self.app.push_screen(dialog, answered)

    def admit(self, error: Exception, again: bool = True) -> None:
        """Report a defect without ending the program; a known one is reported again only with ``again``."""
        known = repr(error) in self.defects
        if again or not known:
            log.error("a defect", exc_info=error)
            self.notify(crash_words(error), severity="error")
        if not known:
            self.defects.append(repr(error))

    @on(KeyLine.Pressed)
    def _key_pressed(self, event: KeyLine.Pressed) -> None:
        self.run(event.command)

    def run_chosen(self, command: str) -> None:
        """Run a command of the menu. One for a branch acts on the branch that was chosen last, if any."""
        known, keys, current = COMMANDS[command], self.app.known_keys, self.session.round
        if not known.needs_branch or (self._pane_chosen and self.grid.pane is not None):
            self.run(command)
        elif current is not None and current.branches:
            choose = first_key(keys, "switch")
            self.notify(f"“{known.title}” is for a chosen branch. Press {choose} to choose one first.")
        else:
            write = first_key(keys, "generate")
            self.notify(f"“{known.title}” is for a branch, and there is none yet. {write} writes branches.")

    def show_mode(self) -> None:
        """Show where keys go."""
        pane, top = self.focused, self.app.screen
        if not self.on_top:
            self.status_line.mode = top.badge if isinstance(top, Page) else "MENU"
        elif isinstance(pane, BranchPane):
            self.status_line.mode = f"BRANCH {pane.number}"
        else:
            self.status_line.mode = "STORY" if pane is self.editor or self.unchosen else "—"

    def _show_keys(self) -> None:
        self.show_mode()
        self.grid.show_keys(self.unchosen or self.on_branch)
        if not self.on_top:  # the screen above shows its own keys
            self.key_line.show([])
            return
        entries = key_line_entries(
            self.app.known_keys, self.size.width,
            on_branch=self.on_branch, unchosen=self.unchosen, stops=self._stops(),
        )  # fmt: skip
        self.key_line.show(entries)

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        if self.focused is not self.editor:
            self.be_loud()  # a hidden pane must not receive keys
        if isinstance(self.focused, BranchPane):
            self._unchosen, self._pane_chosen = False, True

    @on(events.DescendantFocus)
    @on(events.ScreenSuspend)
    @on(events.ScreenResume)
    def _keys_changed(self) -> None:
        self._show_keys()

    def go_to_story(self) -> None:
        if self.arrangement.large:
            self.rearrange(large=False)
        self.editor.focus()

    # ---- the story

    @on(StoryEditor.Undo)
    def _undo(self, event: StoryEditor.Undo) -> None:
        self.run("redo" if event.forward else "undo")

    def show_story(self, where_changed: bool = False) -> None:
        text, before = self.session.text(), self.editor.text
        place = None
        if where_changed and text != before:
            start = same_start(before, text)
            end = len(text) - same_end(before, text, min(len(text), len(before)) - start)
            place, cursor = end, self.editor.cursor
            if len(text) == len(before) and Counter(text[start:end]) == Counter(before[start:end]):
                head, tail = before[:cursor].rpartition("\n")[2], before[cursor:].partition("\n")[0]
                moved = text.find(head + tail, max(0, start - len(head)))  # a chapter takes the cursor along
                place = moved + len(head) if 0 <= moved < end else end
        elif where_changed:
            place = self.editor.cursor
        self.editor.show(text, place)
        self.show_authors()

    def show_authors(self) -> None:
        """Tint the story by author, if the writer has chosen that."""
        mode = self.app.preferences[options.COLOUR_TOKENS]
        if mode == tints.SURPRISAL:
            self._colours.show(self.editor, mode, anew=True)
            return
        if mode != tints.AUTHOR:
            if self.editor.provenance is not None:
                self.editor.provenance = None
            return
        story = self.session.story
        nodes = story.nodes(story.path(story.current))
        parts: list[tuple[int, Author]] = [(len(s.text), s.author) for node in nodes for s in node.spans]
        self.editor.provenance = Provenance(parts)

    def colour(self) -> None:
        """Apply the colour mode. Log-probabilities are collected only while they are shown."""
        mode = self.app.preferences[options.COLOUR_TOKENS]
        wanted = mode == tints.SURPRISAL
        if wanted or mode != self.grid.colours[0]:
            Tokens.of(self.session).gather = wanted
        self.grid.colours = mode, Tokens.of(self.session)
        self.legend.show(mode, self.size.height)
        self.grid.colour()
        self.show_authors()

    def _update_colours(self) -> None:
        """Colour the part of the story that is scored by now, and request the rest."""
        mode = self.app.preferences[options.COLOUR_TOKENS]
        if mode == tints.SURPRISAL:
            self._colours.show(self.editor, mode)

    # ---- branches

    @property
    def writing(self) -> bool:
        current = self.session.round
        if current is None:
            return False
        return not current.branches or any(branch.live for branch in current.branches)

    def _stops(self) -> bool:
        """Return whether "step back" would stop something."""
        work = self.session.engine_state in ("INIT", "LOADING") or bool(self.app.transfers.status_parts())
        work = work or self.session.long_work is not None
        return work or self.writing or (self.on_branch and self.app.fetch.model is not None)

    @on(TabStrip.Pressed)
    def _tab_pressed(self, event: TabStrip.Pressed) -> None:
        self.grid.go(event.index)

    # ---- painting, called by the pump

    def flush(self) -> None:
        current = self.session.round
        if current is not None and current.generation is None and self._shown > 0:
            return  # the round waits for the model: keep showing the previous one
        count = len(current.branches) if current is not None else 0
        if current is not self._round or count != self._shown or not self.grid.shows(current):
            again = current is not None and not self._shows_others(current)
            if current is not self._round or not self._shown:
                self._usual = self.session.sampling  # later changes of knobs do not apply to these branches
            others = current is not self._round and self._shows_others(current)
            if others and isinstance(self.focused, BranchPane):
                self.leave_panes()
            self._round, self._shown = current, count
            blank: list[None] = [None] * self.session.n
            self.grid.show(current.branches if current is not None and count else blank, again)
            self.grid.show_stale(self.session.stale)
            self.grid.colour()
        self.grid.pull()

    def _shows_others(self, current: Round | None) -> bool:
        """Return whether ``current`` has other branches than those shown."""
        before = self._round
        return current is not None and before is not None and current.identity is not before.identity

    def flush_slowly(self) -> None:
        self.app.transfers.watch()
        self.app.fetch.watch(self)
        self._set_prefetch_focus()
        self._show_work()
        self._show_saved()
        self.grid.put_in_order(self.session.round)
        self._update_colours()
        self._show_marks()
        self._show_keys()
        self.notices.watch()
        self.app.show_title(self.session.story.title, self.writing)
        self.keep_view()

    def _set_prefetch_focus(self) -> None:
        """Tell the prefetcher which pick is likely; not for a branch with thoughts, whose pick omits them."""
        pane = self.grid.pane
        if pane is not None and not pane.thoughts.end:
            LookAhead.of(self.session).focus(pane.index, pane.take)

    def _show_work(self) -> None:
        """Update the left part of the status line: the title, figures, or long work."""
        figures = status.engine_figures(self.session, self.app.address) if self.arrangement.figures else ()
        left = status.left(self.session, self._load_watch, self.app.transfers.status_parts(), figures)
        self.status_line.left = (*filter(None, [self.app.fetch.describe()]), *left)

    def _show_saved(self) -> None:
        """Update the save state and the word count."""
        self.status_line.set_class(self.session.story.save_state.trouble is not None, "-trouble")
        right = status.right(self.session, self._today.count(), self.app.preferences[options.GOAL])
        self.status_line.right = right[:1] if self.arrangement.figures else right

    def _show_marks(self) -> None:
        current = self.session.round
        branches = current.branches if current is not None else []
        self.grid.show_stale(self.session.stale)
        for pane in self.grid.shown:
            if pane.index < len(branches):
                sampling = sampling_words(branches[pane.index], self._usual)
                note = ", ".join(filter(None, (status.note(self.session, pane.index), sampling)))
                marks = status.marks(self.session, pane.index, pane.take)
                pane.show_facts(marks, note, self.arrangement.figures)
        self.strip.show([f"{branch.index + 1}{state_sign(branch)}" for branch in branches], self.grid.current)
        self.strip.set_class(self.grid.single and len(branches) > 1, "-needed")

    # ---- layout

    def be_loud(self) -> None:
        """Show everything again, if only the story is shown."""
        if self.arrangement.quiet:
            self.rearrange(quiet=False)

    def rearrange(self, **changes: Any) -> None:
        before, self.arrangement = self.arrangement, replace(self.arrangement, **changes)
        if (quiet := self.arrangement.quiet) != before.quiet:
            self.editor.typewriter = quiet
            self.editor.show_cursor()
            if quiet:
                self.arrangement = replace(self.arrangement, large=False)
                self.editor.focus()
        self._applied_for = self.size
        self._lay_out()
        self.legend.show(self.app.preferences[options.COLOUR_TOKENS], self.size.height)
        self._fit()

    def _lay_out(self) -> None:
        """Set the classes of the arrangement, and divide the window."""
        classes = self.arrangement.classes(self.size)
        narrow = not any(classes[f"-{layout}"] for layout in options.LAYOUTS)
        # In one call: each change of classes restyles the whole screen.
        self.update_classes(classes)
        self.grid.column = classes["-column"]
        self.grid.single = narrow or self.arrangement.large
        for panes in self.query("#panes"):
            panes.styles.margin = (0, self.arrangement.panel_columns, 0, 0)

    def _fit(self, _: object = None) -> None:
        """Make the content fit the last layout.

        Called after every layout. Resize events are not enough: none is sent for a new margin, to a screen
        under a dialog, or to a widget whose size was read between a style change and its layout.
        """
        if self.size != self._applied_for:
            self.rearrange()
            return
        # Too wide a margin would exceed the window.
        room = min(self.editor.outer_size.width, self.size.width - self.arrangement.panel_columns)
        spare = max(0, room - 2 * _MARGIN - self.app.text_width) // 2
        self.editor.styles.padding = (1 if self.size.height > SHORT else 0, _MARGIN + spare)
        self.editor.fit()
        self.grid.fit()
