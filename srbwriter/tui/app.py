"""The terminal app: theme, keymap, screens and the life of the session. Nothing else.

It works over one Session and never touches the engine's insides or the store.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import events
from textual.driver import Driver
from textual.screen import Screen

from srbwriter.config import Settings
from srbwriter.session.ahead import LookAhead, budget_of
from srbwriter.story import StoryError
from srbwriter.tui import options, signals
from srbwriter.tui.dialogs.ask import Confirm, Refusal
from srbwriter.tui.dialogs.base import Page
from srbwriter.tui.dialogs.help import Help
from srbwriter.tui.dialogs.menu import Menu
from srbwriter.tui.dialogs.model_fetch import ModelFetch
from srbwriter.tui.dialogs.model_offer import ModelOffer
from srbwriter.tui.dialogs.trouble import crash_words
from srbwriter.tui.driver import own_driver
from srbwriter.tui.keyboard import Burst, Keyboard
from srbwriter.tui.options import Preferences
from srbwriter.tui.program import Program
from srbwriter.tui.story.transfers import Transfers
from srbwriter.tui.write.desk import Desk
from srbwriter.tui.write.prose_area import ProseArea

if TYPE_CHECKING:
    from srbwriter.session import Session


_TYPE = ("enter", "backspace", "delete")  # beside keys that have a character
_AWAITED_SECONDS = 0.3  # from giving the terminal back to saying what is awaited
_MODEL_AWAITED = "Your story is saved. The model is still being closed …"
_DISK_AWAITED = "Your words are still being saved …"
_LOOK_SECONDS = 1.0  # between two looks at what nobody tells of


class App(Program):
    """The program in a terminal."""

    TITLE = "srbwriter"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    OptionList { scrollbar-size-vertical: 1; &:focus { background-tint: $background 0%; } }
    OptionList > .option-list--option-highlighted, OptionList:focus > .option-list--option-highlighted {
        background: $primary 30%; color: $foreground; text-style: bold;
    }
    VerticalScroll, TextArea { scrollbar-size-vertical: 1; }
    """

    def __init__(self, session: Session, settings: Settings, preferences: Preferences | None = None) -> None:
        super().__init__(session, settings, preferences)
        self.fetch = ModelFetch()
        self.offer = ModelOffer(settings)
        self.transfers = self._transfers = Transfers(self)
        self.write_screen = self._desk = Desk(session, self)
        self.keyboard = self._line = Keyboard(self, self._desk, super().on_event)

    def apply_preferences(self) -> None:
        LookAhead.of(self.session).budget = budget_of(self.preferences)
        self.animation_level = "none" if self.preferences[options.REDUCED_MOTION] else "full"
        self._apply_keys()
        self._apply_theme()
        if self._desk.is_mounted:
            self._desk.rearrange(layout=self.preferences[options.LAYOUT])
            self._desk.colour()
            self._tell_notes()

    # ---- stories

    def open_story(self, file: Path, notes: Iterable[str] = (), begins: bool = False) -> None:
        if not self.transfers.may_leave():
            return
        self.next_story, self.next_notes, self.next_begins = file, list(notes), begins
        self.leave()

    def leave(self) -> None:
        self.write_screen.keep_view()
        try:
            self.session.save()
        except StoryError as error:
            self._ask_before_leaving(error)
        else:
            if self.next_story is None:
                self.session.prepare_close()
            self.exit()

    def _ask_before_leaving(self, error: StoryError) -> None:
        answers = {"r": "tries again", "escape": "stays"}
        question = str(error)
        if (rescue := self.session.story.rescue) is not None:
            answers = {"r": "tries again", "l": "leaves", "escape": "stays"}
            question = f"{error}\nThe story with your last words is in {rescue}, and is read from there."

        def answered(key: str | None) -> None:
            if key == "r":
                self.leave()
            elif key == "l":
                self.exit()
            else:
                self.next_story = None

        self.push_screen(Confirm(question, answers), answered)

    def show_help(self, page: type[Page[Any]]) -> None:
        self.push_screen(Help(page=page))

    def run_prompt(self, screen: Screen[Any], act: Callable[[], object]) -> None:
        returned: list[object] = []
        self.write_screen.guarded(lambda: returned.append(act()))
        if self.screen is screen and returned != [True]:
            self.push_screen(Refusal([message.words for message in self.messages.current]))

    def show_menu(self) -> None:
        current = self.session.round
        menu = Menu(len(current.branches) if current is not None else 0)
        self.push_screen(menu, lambda chosen: self._run_on_desk(*chosen) if chosen is not None else None)

    def _run_on_desk(self, command: str, number: int) -> None:
        """Run a command on the write screen, after closing the screens above it; not if one asks first."""
        while (top := self.screen) is not self._desk:
            depth = len(self.screen_stack)
            if isinstance(top, Page):
                top.action_close()
            if len(self.screen_stack) >= depth:
                return
        self._desk.run_chosen(command, number)

    # ---- life

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's choice, with our own driver in place of the one for Linux and macOS."""
        found = super().get_driver_class()
        return own_driver(found)

    async def action_quit(self) -> None:
        """Textual's own way out: the writer's last words come first."""
        self.write_screen.run("quit")

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.Paste | Burst) and not event.is_forwarded:
            types = not isinstance(event, events.Key) or event.is_printable or event.key in _TYPE
            if types and isinstance(self.focused, ProseArea):
                self.typed_at = time.monotonic()
            self._desk.pump.give_way()
            LookAhead.of(self.session).give_way()
            self._line.take(event)
        else:
            await super().on_event(event)

    def on_mount(self) -> None:
        self._to_terminal("\x1b[22;2t")  # keeps the terminal's own title until the end
        self.apply_preferences()
        self.push_screen(self._desk)
        self.set_interval(_LOOK_SECONDS, self.reload_changed_themes)
        for complaint in self.complaints:
            if not any(complaint in note for note in self.notes):
                self.notify(complaint, severity="warning")
        self._tell_notes()
        if not self.is_headless:  # then it is somebody else's process
            signals.obey_signals(self)

    def failure_words(self, error: Exception) -> str:
        """What happened, where the report lies, and that the words are safe."""
        with contextlib.suppress(Exception):
            self.session.save()
        return crash_words(error)

    def on_unmount(self) -> None:
        self._line.close()
        self._transfers.end()
        self._to_terminal("\x1b[23;2t")
        with self._naming_what_is_awaited():
            self.session.close(keep_model=self.next_story is not None)

    @contextlib.contextmanager
    def _naming_what_is_awaited(self) -> Generator[None]:
        """Say in the terminal, which has been given back, what the end of the program waits for."""
        said = threading.Event()

        def say() -> None:
            said.set()
            self._to_terminal(_MODEL_AWAITED if self.session.story.save_state.saved else _DISK_AWAITED)

        timer = threading.Timer(_AWAITED_SECONDS, say)
        if self.next_story is None and not self.is_headless:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if timer.is_alive():
                timer.join()
            if said.is_set():
                self._to_terminal("\r\x1b[K")  # the prompt of the shell comes there
