"""The interfaces of the app and of the write screen, for screens and helpers.

The app itself (:mod:`srbwriter.tui.app`) imports all parts and combines them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from textual.notifications import SeverityLevel
from textual.screen import Screen

from srbwriter import paths
from srbwriter.config import Settings
from srbwriter.session.sampling import RememberedKnobs
from srbwriter.story import library
from srbwriter.tui import commands, options, themes
from srbwriter.tui.driver import FailingApp, driver_of
from srbwriter.tui.messages import Message, Messages, Shows
from srbwriter.tui.options import Preferences
from srbwriter.tui.widgets.lines import key_name
from srbwriter.tui.write.essentials import first_key

if TYPE_CHECKING:
    from srbwriter.formats.transfer import Export, Import, Landed
    from srbwriter.models import RecommendedModel
    from srbwriter.session import Session
    from srbwriter.tui.write.branch_grid import BranchGrid
    from srbwriter.tui.write.layouts import Arrangement
    from srbwriter.tui.write.story_editor import StoryEditor

Answer = TypeVar("Answer")

_REST_SECONDS = 2.0  # without a key in a text, after which the writer counts as pausing


class Writer(Protocol):
    """The write screen, for commands, dialogs and helpers: this is all that they may know of it."""

    session: Session
    editor: StoryEditor
    grid: BranchGrid
    arrangement: Arrangement

    @property
    def app(self) -> Program: ...
    @property
    def on_top(self) -> bool:
        """Whether no other screen is above it."""
        ...

    @property
    def writing(self) -> bool:
        """True while a branch is running or waits for the model."""
        ...

    @property
    def unchosen(self) -> bool:
        """Whether branches are visible and none is chosen: digits pick, other typing goes to the story."""
        ...

    def run(self, command: str, number: int = 0) -> None:
        """Run a command; see :meth:`guarded`."""
        ...

    def guarded(self, act: Callable[[], object]) -> bool:
        """Run ``act`` and paint what changed; show expected errors in a line and return False."""
        ...

    def ask(self, dialog: Screen[Answer], then: Callable[[Answer], object]) -> None:
        """Show a dialog; run ``then`` with its answer, guarded, unless the writer cancelled."""
        ...

    def notify(
        self, message: str, *, severity: SeverityLevel = "information",
        about: Callable[[], object] | None = None,
    ) -> None:  # fmt: skip
        """Show a message; see :meth:`Program.notify`."""
        ...

    def show_story(self, where_changed: bool = False) -> None:
        """Show the session's text with the cursor at its end, or after the part that changed."""
        ...

    def go_to_story(self) -> None:
        """Focus the story, even if one branch has filled the screen."""
        ...

    def choose_pane(self) -> None:
        """Focus the current pane, so that its keys are commands."""
        ...

    def leave_panes(self) -> None:
        """Choose no pane; the first one is next. The story gets all keys but those that pick."""
        ...

    def rearrange(self, **changes: Any) -> None:
        """Change fields of :attr:`arrangement`, and lay everything out for it and for the settings."""
        ...

    def keep_view(self) -> None:
        """Have the session keep what the screen shows, for the next start; returns at once."""
        ...


class Gate(Protocol):
    """The interface of the key queue for screens."""

    @property
    def is_open(self) -> bool: ...
    @property
    def has_waiting(self) -> bool: ...
    def open(self, asked: bool = False) -> None: ...


class Fetch(Protocol):
    """The interface of the model download for screens."""

    @property
    def model(self) -> RecommendedModel | None: ...
    def describe(self) -> str: ...
    def begin(self, screen: Writer, model: RecommendedModel) -> None: ...
    def cancel(self, screen: Writer) -> bool: ...
    def may_leave(self, screen: Writer) -> bool: ...
    def watch(self, screen: Writer) -> None: ...


class Transfers(Protocol):
    """The interface of the running export or import for screens."""

    def begin(
        self,
        verb: str,
        name: str,
        transfer: Export | Import,
        then: Callable[[Landed], object],
        leaves: bool = False,
    ) -> None: ...
    def status_parts(self) -> tuple[str, ...]: ...
    def cancel(self) -> bool: ...
    def may_leave(self) -> bool: ...
    def watch(self) -> None: ...


class Offer(Protocol):
    """The interface of the offer of a larger model for screens."""

    def count_pick(self) -> None: ...
    def withdraw(self) -> None: ...
    def watch(self, screen: Writer) -> None: ...


class Program(FailingApp):
    """The interface of the app for its screens."""

    write_screen: Writer
    keyboard: Gate
    transfers: Transfers
    fetch: Fetch
    offer: Offer

    def __init__(self, session: Session, settings: Settings, preferences: Preferences | None = None) -> None:
        super().__init__()
        self.session = session
        self.messages = Messages()
        self._shown_messages: list[Message] = []
        self.next_story: Path | None = None
        self.next_notes: list[str] = []
        self.next_begins = self.begins = False  # whether branches are written as soon as a story is open
        self.typed_at = -math.inf
        self.address = ""  # the address of a server beside the app
        self.notes: list[str] = []  # messages to show once the screen is up
        self._conflicts: list[str] = []  # messages about conflicting keys that were shown
        self._keys_applied: dict[str, str] | None = None
        self.preferences = preferences or Preferences(settings)  # with the changes of the story before
        self.knobs = RememberedKnobs(session, settings)
        self.knobs.recall()
        self._apply_keys()
        self._theme_missed: str | None = None  # the configured theme that is missing, once reported
        self.load_themes()
        self._watcher = themes.Watcher()

    # ---- implemented by the app

    def apply_preferences(self) -> None:
        """Apply changed settings at once, where possible."""
        raise NotImplementedError

    def open_story(self, file: Path, notes: Iterable[str] = (), begins: bool = False) -> None:
        """Leave this story and open another: the screen is reset, and the model stays loaded.

        ``notes`` are shown then; with ``begins``, branches are written at once.
        """
        raise NotImplementedError

    def run_prompt(self, screen: Screen[Any], act: Callable[[], object]) -> None:
        """Run ``act``, a command of ``screen`` that opens a prompt for text.

        If it opens none, a dialog shows why, so that text typed for the prompt never runs commands. An
        ``act`` that did something else instead returns True.
        """
        raise NotImplementedError

    def leave(self) -> None:
        """End the program; if text cannot be saved, ask the writer."""
        raise NotImplementedError

    def show_help(self, page: type[Any]) -> None:
        """Show the help of a page."""
        raise NotImplementedError

    def show_menu(self) -> None:
        """Show the menu of commands; a command runs on the write screen, after the screens above it close."""
        raise NotImplementedError

    # ---- settings for the screens

    @property
    def writer_rests(self) -> bool:
        """Whether the writer is not typing, so that a dialog may open without catching the next keys."""
        return time.monotonic() - self.typed_at > _REST_SECONDS

    @property
    def text_width(self) -> int:
        """The longest line of the story, in cells."""
        return self.preferences[options.TEXT_WIDTH]

    @property
    def goes_on(self) -> bool:
        """Whether new branches are written as soon as one is picked."""
        return self.preferences[options.CONTINUE]

    def keys(self, command: str) -> list[str]:
        """Return the keys that run a command on a branch."""
        return self.known_keys.plain.get(command, [])

    def anywhere(self, command: str) -> list[str]:
        """Return the keys that run a command with any focus."""
        return self.known_keys.anywhere.get(command, [])

    def way_to(self, command: str) -> str:
        """Return how a command is run from any focus: its key, or its title and the key of the menu."""
        if keys := self.anywhere(command):
            return key_name(keys[0])
        return f"“{commands.COMMANDS[command].title}” in the menu ({first_key(self.known_keys, 'menu')})"

    def _apply_keys(self) -> None:
        own = {key.name.removeprefix("keys."): self.preferences[key] for key in options.own_keys()}
        if own == self._keys_applied:
            return  # finding conflicts takes a while
        self._keys_applied = own
        self.known_keys = commands.Keys(own)
        self.set_keymap(self.known_keys.keymap)
        shown, self._conflicts = self._conflicts, self.known_keys.conflicts()
        self.notes += [words for words in self._conflicts if words not in shown]

    def _tell_notes(self) -> None:
        while self.notes:
            self.notify(self.notes.pop(0))

    # ---- themes

    def load_themes(self) -> None:
        """Read all themes; collect one complaint for each that is invalid."""
        found, self.complaints = themes.load_all()
        for theme in found:
            self.register_theme(theme)

    def _apply_theme(self) -> None:
        """Show the configured theme, or else the default one with a message why."""
        wanted = self.preferences[options.THEME]
        found = wanted in self.available_themes
        self.show_theme(wanted if found else themes.DEFAULT)
        if not found and wanted != self._theme_missed:
            self.notes.append(themes.explain_missing(wanted, self.complaints))
        self._theme_missed = None if found else wanted

    def show_theme(self, name: str) -> None:
        """Show a theme; in a terminal with sixteen colours the one of Textual's that is as dark."""
        few = not self.is_headless and self.console.color_system in ("standard", "windows")
        ansi = "ansi-dark" if self.available_themes[name].dark else "ansi-light"
        self.theme = ansi if few else name

    def reload_changed_themes(self) -> None:
        """Show a theme of the writer's own as soon as its file changes."""
        changed = self._watcher.changed()
        if not changed:
            return
        found, complaints = themes.load_all(changed)
        for theme in found:
            self.register_theme(theme)
        for complaint in complaints:
            self.notify(complaint, severity="warning")
        if self.theme in {theme.name for theme in found}:
            self.apply_theme_again()
        if self._theme_missed is not None:
            self._apply_theme()

    # ---- messages

    def recent(self) -> list[tuple[Path, str]]:
        """Return the recently opened stories, newest first."""
        known = library.RecentStories(paths.recent_file()).all()
        return [(entry.path, entry.title or entry.path.stem) for entry in known if entry.path.exists()]

    def notify(
        self, message: str, *, title: str = "", severity: SeverityLevel = "information",
        timeout: float | None = None, markup: bool = False, about: Callable[[], object] | None = None,
    ) -> None:  # fmt: skip
        """Show a message to the writer, in a line of the top screen.

        It is never parsed as markup: most messages contain text of a file or a person. With ``about``, it
        goes as soon as that returns something else than now.
        """
        seconds = self.messages.add(message, severity == "error", about)
        self.show_messages()
        self.set_timer(seconds, self.show_messages)
        if not isinstance(self.screen, Shows):  # a screen of Textual itself
            super().notify(message, title=title, severity=severity, timeout=timeout, markup=False)

    def show_messages(self) -> None:
        """Show the current messages on the top screen; there may be none while the app ends."""
        top = self.screen_stack[-1] if self.screen_stack else None
        if isinstance(top, Shows):
            self._shown_messages = self.messages.current
            top.show_messages(self._shown_messages)

    def drop_old_messages(self) -> None:
        """Stop showing messages whose subject has changed."""
        if self._shown_messages and self._shown_messages != self.messages.current:
            self.show_messages()

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
