"""The terminal app: theme, keymap, screens and the life of the session. Nothing else.

It works over one Session and never touches the engine's insides or the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from textual import events
from textual.actions import ActionParseResult
from textual.binding import Binding
from textual.dom import DOMNode
from textual.notifications import SeverityLevel
from textual.screen import Screen

from srbwriter.config import Key, Settings
from srbwriter.session import Session
from srbwriter.session.ahead import LookAhead, budget_of
from srbwriter.session.sampling import RememberedKnobs
from srbwriter.story import StoryError
from srbwriter.tui import clipboard, commands, options, signals, themes
from srbwriter.tui.dialogs.ask import Confirm
from srbwriter.tui.dialogs.base import Page
from srbwriter.tui.dialogs.trouble import crash_words
from srbwriter.tui.driver import FailingApp, as_first, driver_of
from srbwriter.tui.keyboard import Burst, Keyboard
from srbwriter.tui.model_fetch import ModelFetch
from srbwriter.tui.options import Preferences
from srbwriter.tui.prose import Prose
from srbwriter.tui.story.transfers import Transfers
from srbwriter.tui.write.screen import WriteScreen

Answer = TypeVar("Answer")
Beside = Callable[[Session], AbstractContextManager[str]]
"""What runs in the same process as long as a session is open, for example a server on its engine.

Entered, it gives the address that it listens at.
"""

_TYPE = ("enter", "backspace", "delete")  # beside keys that have a character
_REST_SECONDS = 2.0  # without a key in a text, after which the writer counts as pausing
_LEAST_SECONDS, _CHARACTERS_A_SECOND = 5.0, 15  # that a message is shown


class NextStory(NamedTuple):
    """A story to open, and what to say then."""

    file: Path
    notes: tuple[str, ...] = ()


class App(FailingApp):
    """The program in a terminal. It stays the same from story to story; each has its session and screen."""

    TITLE = "srbwriter"
    COMMANDS = {commands.CommandProvider}
    CSS_PATH = "write/screen.tcss"  # read with the rest: a screen's own has all of it parsed once more
    CSS = """
    OptionList { scrollbar-size-vertical: 1; &:focus { background-tint: $background 0%; } }
    OptionList > .option-list--option-highlighted, OptionList:focus > .option-list--option-highlighted {
        background: $primary 30%; color: $foreground; text-style: bold;
    }
    VerticalScroll { scrollbar-size-vertical: 1; }
    ToastRack { margin-bottom: 2; }
    Toast { width: auto; max-width: 100%; padding: 0 1; margin-top: 0; }
    """

    def __init__(self, session: Session, settings: Settings, beside: Beside | None = None) -> None:
        super().__init__()
        self.said: list[str] = []
        """All messages of this run."""
        self.next_story: NextStory | None = None
        self.typed_at = -math.inf
        self.notes: list[str] = []  # messages to show once the screen is up
        self._settings, self._beside, self._services = settings, beside, contextlib.ExitStack()
        self._error_until = -math.inf  # while an error is shown
        self._looks: list[asyncio.Future[None]] = []
        self._own_keys: dict[str, str] | None = None
        self.preferences = Preferences(settings)
        self._apply_keys()
        self.load_themes()
        self._apply_theme()  # before styles are read: each change of a theme has all of them read again
        self.fetch = ModelFetch()
        self.transfers = Transfers(self)
        self.keyboard = Keyboard(self, super().on_event)
        self._take_over(session)

    def _take_over(self, session: Session) -> None:
        """Make ``session`` the one that is written in, on a screen of its own."""
        self.session = session
        self.knobs = RememberedKnobs(session, self._settings)
        self.knobs.recall()
        LookAhead.of(session).budget = budget_of(self.preferences)
        self.write_screen = WriteScreen(session, self)
        if self._beside is not None:
            address = self._services.enter_context(self._beside(session))
            self.notes.append(f"serving the same model on {address}")

    async def ask(self, dialog: Screen[Answer]) -> Answer | None:
        """Show a dialog; return its answer, None if the writer cancelled. Only in a worker."""
        return await self.push_screen_wait(dialog)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; the pump looks from time to time."""
        while not holds():
            self._looks.append(look := asyncio.get_running_loop().create_future())
            await look

    def look(self) -> None:
        """Let all that wait with :meth:`until` look."""
        looks, self._looks = self._looks, []
        for look in looks:
            if not look.done():
                look.set_result(None)

    # ---- settings

    def change(self, key: Key[Any], value: Any) -> None:
        """Change a setting from now on; say why, if the next run will not have the value."""
        note = self.preferences.put(key, value)
        self.apply_preferences()
        if note:
            self.notify(note)

    def apply_preferences(self) -> None:
        """Apply changed settings at once, where possible."""
        LookAhead.of(self.session).budget = budget_of(self.preferences)
        self.animation_level = "none" if self.preferences[options.REDUCED_MOTION] else "full"
        self._apply_keys()
        self._apply_theme()
        if self.write_screen.is_mounted:
            self.write_screen.layout_name = self.preferences[options.LAYOUT]
            self.write_screen.rearrange()
            self.write_screen.colour()
            self._tell_notes()

    @property
    def writer_rests(self) -> bool:
        """Whether the writer is not typing, so that a dialog may open without catching the next keys."""
        return time.monotonic() - self.typed_at > _REST_SECONDS

    # ---- keys

    def _apply_keys(self) -> None:
        own = {key.name.removeprefix("keys."): self.preferences[key] for key in options.own_keys()}
        if own != self._own_keys:
            self._own_keys = own
            self.known_keys = commands.Keys(own)
            self.set_keymap(self.known_keys.keymap)
            for id, keys in self.known_keys.unbound.items():
                self.bind(keys, f"run_on_desk('{id}')", description=commands.COMMANDS[id].title, show=False)
            if lost := ", ".join(self.known_keys.lost):
                self.notes.append(f"No key is left for {lost}: other commands have them, see [keys].")

    def way_to(self, command: str) -> str:
        """Return how a command is run from any focus: its key, or its title and the key of the menu."""
        if keys := self.known_keys.anywhere.get(command):
            return commands.key_name(keys[0])
        return f"“{commands.COMMANDS[command].title}” in the menu ({commands.key_name(commands.MENU)})"

    def get_key_display(self, binding: Binding) -> str:
        """Name a key as everywhere else; the command key of a Mac does not arrive in a terminal."""
        key = binding.key_display or commands.key_name(binding.key)
        return "" if binding.key.startswith("super+") else key

    async def run_action(
        self, action: str | ActionParseResult, default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:  # fmt: skip
        """Run an action of any screen; say what it refuses."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception as error:
            self.write_screen.tell(error)
            return True

    def action_run_on_desk(self, command: str) -> None:
        """Run a command on the write screen, after closing the screens above it; not if one asks first."""
        while (top := self.screen) is not self.write_screen:
            depth = len(self.screen_stack)
            if isinstance(top, Page):
                top.action_close()
            if len(self.screen_stack) >= depth:
                return
        self.write_screen.run_chosen(command)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.Paste | Burst) and not event.is_forwarded:
            types = not isinstance(event, events.Key) or event.is_printable or event.key in _TYPE
            if types and isinstance(self.focused, Prose):
                self.typed_at = time.monotonic()
            self.write_screen.pump.give_way()
            LookAhead.of(self.session).give_way()
            self.keyboard.take(event)
        else:
            await super().on_event(event)

    # ---- themes

    def load_themes(self) -> None:
        """Read all themes; complaints about them are shown with the first screen."""
        found, complaints = themes.load_all()
        self.notes += complaints
        for theme in found:
            self.register_theme(theme)

    def _apply_theme(self) -> None:
        """Show the configured theme, or else the default one with a message why."""
        wanted, before = self.preferences[options.THEME], self.theme
        known = wanted in self.available_themes
        self.show_theme(wanted if known else themes.DEFAULT)
        if not known and self.theme != before:
            words = f"There is no theme {wanted!r}; showing {themes.DEFAULT}. Theme in the menu lists them."
            self.notes.append(words)

    def show_theme(self, name: str) -> None:
        """Show a theme; in a terminal with sixteen colours the one of Textual's that is as dark."""
        few = not self.is_headless and self.console.color_system in ("standard", "windows")
        ansi = "ansi-dark" if self.available_themes[name].dark else "ansi-light"
        self.theme = ansi if few else name

    # ---- messages

    def notify(
        self, message: str, *, title: str = "", severity: SeverityLevel = "information",
        timeout: float | None = None, markup: bool = False,
    ) -> None:  # fmt: skip
        """Show a message for as long as it takes to read; most hold text of a person, so never as markup.

        It takes the place of the one before, unless that is an error.
        """
        self.said.append(message)
        seconds = timeout or max(_LEAST_SECONDS, len(message) / _CHARACTERS_A_SECOND)
        if time.monotonic() > self._error_until:
            self.clear_notifications()
        if severity != "information":
            self._error_until = time.monotonic() + seconds
        super().notify(message, title=title, severity=severity, timeout=seconds, markup=False)

    def _tell_notes(self) -> None:
        if self.notes:
            self.notify("\n".join(self.notes))
            self.notes.clear()

    def show_title(self, story: str, writing: bool) -> None:
        """Set the title of the terminal window to the story's."""
        name = "".join(character for character in story if character.isprintable()) or "srbwriter"
        title = f"{name} {'▸' if writing else ''}".rstrip()
        if title != self.title:
            self.title = title
            self._to_terminal(f"\x1b]2;{title}\x07")

    def _to_terminal(self, sequence: str) -> None:
        if (driver := driver_of(self)) is not None and not self.is_headless:
            driver.write(sequence)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy through the terminal and, where there is one, through the desktop's tool."""
        super().copy_to_clipboard(text)
        clipboard.copy_to_desktop(text)

    # ---- stories

    def open_story(self, file: Path, notes: Iterable[str] = ()) -> None:
        """Leave this story and open another: keys wait for its screen, and the model stays loaded.

        ``notes`` are shown then.
        """
        if self.transfers.may_leave():
            self.next_story = NextStory(file, tuple(notes))
            self.leave()

    def leave(self) -> None:
        """End the program, or go to the next story; if text cannot be saved, ask the writer."""
        self.write_screen.keep_view()
        try:
            self.session.save()
        except StoryError as error:
            self.run_worker(self._ask_before_leaving(error))
        else:
            self._go()

    def _go(self) -> None:
        if self.next_story is not None:
            self.keyboard.hold()
            self.run_worker(self._change_story(self.next_story))
            return
        self.session.prepare_close()
        self.exit()

    async def _change_story(self, wanted: NextStory) -> None:
        before, self.next_story = self.session, None
        while self.screen is not self.write_screen:
            await self.pop_screen()
        self.write_screen.pump.stop()
        before.close(keep_model=True)
        self._services.close()
        self.transfers.end()
        try:
            session = Session.open(self._settings, wanted.file, before.loader)
        except (StoryError, OSError) as error:  # nobody is to lose their story by a bad file
            wanted = NextStory(before.story.file, (str(error),))
            session = Session.open(self._settings, wanted.file, before.loader)
        self._take_over(session)
        self.notes.extend(wanted.notes)
        await self.switch_screen(self.write_screen)  # pyright: ignore[reportUnknownMemberType]
        self._tell_notes()

    async def _ask_before_leaving(self, error: StoryError) -> None:
        answers = {"r": "tries again", "escape": "stays"}
        question = str(error)
        if (rescue := self.session.story.save_state.rescue) is not None:
            answers = {"r": "tries again", "l": "leaves", "escape": "stays"}
            question = f"{error}\nYour last words are in {rescue}, and are read from there."

        key = await self.ask(Confirm(question, answers))
        if key == "r":
            self.leave()
        elif key == "l":
            self._go()
        else:
            self.next_story = None

    # ---- life

    async def action_quit(self) -> None:
        """Textual's own way out: the writer's last words come first."""
        self.write_screen.run("quit")

    def get_default_screen(self) -> Screen[Any]:
        return as_first(self.write_screen)

    def on_mount(self) -> None:
        self._to_terminal("\x1b[22;2t")  # keeps the terminal's own title until the end
        self.apply_preferences()
        self._tell_notes()
        if not self.is_headless:  # then it is somebody else's process
            signals.obey_signals(self)

    def failure_words(self, error: Exception) -> str:
        """The error, the place of the report, and that the words are safe."""
        with contextlib.suppress(Exception):
            self.session.save()
        return crash_words(error)

    def on_unmount(self) -> None:
        self.keyboard.close()
        self.transfers.end()
        self._to_terminal("\x1b[23;2t")
        self.session.close()
        self._services.close()
