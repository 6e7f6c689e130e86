"""The terminal app: theme, keymap, screens and the life of the session. Nothing else.

It works over one Session and never touches the engine's insides or the store.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from textual import events
from textual.app import App as TextualApp
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter
from textual.notifications import SeverityLevel
from textual.theme import Theme

from srbwriter import paths
from srbwriter.config import Settings
from srbwriter.session.ahead import budget_of
from srbwriter.session.sampling import RememberedKnobs
from srbwriter.story import library
from srbwriter.tui import colours, commands, options, signals, spelling, themes
from srbwriter.tui.driver import TerminalDriver
from srbwriter.tui.keyboard import Burst, Keyboard
from srbwriter.tui.messages import Messages, Shows
from srbwriter.tui.model_fetch import ModelFetch
from srbwriter.tui.model_offer import ModelOffer
from srbwriter.tui.options import Preferences
from srbwriter.tui.screens.help import CommandProvider
from srbwriter.tui.screens.trouble import crash_words
from srbwriter.tui.widgets.prose_area import ProseArea
from srbwriter.tui.write_screen import WriteScreen

if TYPE_CHECKING:
    from srbwriter.session import Session


_TYPE = ("enter", "backspace", "delete")  # beside keys that have a character
_REST_SECONDS = 2.0  # without a key in a text, after which the writer does not type just now
_LOOK_SECONDS = 1.0  # between two looks at what nobody tells of


class App(TextualApp[None]):
    """The program in a terminal."""

    TITLE = "srbwriter"
    ENABLE_COMMAND_PALETTE = False
    COMMANDS = {CommandProvider}
    CSS = """
    OptionList { scrollbar-size-vertical: 1; &:focus { background-tint: $background 0%; } }
    OptionList > .option-list--option-highlighted, OptionList:focus > .option-list--option-highlighted {
        background: $primary 30%; color: $foreground; text-style: bold;
    }
    VerticalScroll, TextArea { scrollbar-size-vertical: 1; }
    """

    def __init__(self, session: Session, settings: Settings) -> None:
        super().__init__()
        self.session = session
        self.messages = Messages()
        self.keyboard = Keyboard(self, super().on_event)
        self.next_story: Path | None = None
        self.next_notes: list[str] = []
        self.next_begins = self.begins = False  # whether branches are written as soon as a story is open
        self._typed_at = -math.inf
        self.address = ""  # where a server beside the app listens
        self.fetch = ModelFetch()
        self.offer = ModelOffer(settings)
        self.notes: list[str] = []  # what the writer is told once the screen is up
        self._conflicts: list[str] = []  # of keys, as they were told
        self.preferences = Preferences(settings)
        self.knobs = RememberedKnobs(session, settings)
        self.knobs.recall()
        self._apply_keys()
        self._form: colours.Form | None = None
        self._theme_missed: str | None = None  # the theme that is wanted and not there, once it has been said
        self.load_themes()
        self._watcher = themes.Watcher()
        self.write_screen = WriteScreen(session, self)

    @property
    def writer_rests(self) -> bool:
        """Whether a dialog may open by itself: nobody types a text whose next keys would go to it."""
        return time.monotonic() - self._typed_at > _REST_SECONDS

    # ---- settings, as the screens ask for them

    @property
    def text_width(self) -> int:
        """The widest line of the story, in cells."""
        return self.preferences[options.TEXT_WIDTH]

    @property
    def goes_on(self) -> bool:
        """True if new branches are written as soon as one is picked."""
        return self.preferences[options.CONTINUE]

    def keys(self, command: str) -> list[str]:
        """The keys that run a command on a branch."""
        return self.known_keys.plain.get(command, [])

    def anywhere(self, command: str) -> list[str]:
        """The keys that run a command whatever has the focus."""
        return self.known_keys.anywhere.get(command, [])

    def _apply_keys(self) -> None:
        own = {key.name.removeprefix("keys."): self.preferences[key] for key in options.own_keys()}
        self.known_keys = commands.Keys(self.preferences[options.KEYMAP], own)
        self.set_keymap(self.known_keys.keymap)
        told, self._conflicts = self._conflicts, self.known_keys.conflicts()
        self.notes += [words for words in self._conflicts if words not in told]

    def _tell_notes(self) -> None:
        while self.notes:
            self.notify(self.notes.pop(0))

    def apply_preferences(self) -> None:
        """Make what was changed in the settings hold, where it can hold at once."""
        self.session.look_ahead.budget = budget_of(self.preferences)
        self.animation_level = "none" if self.preferences[options.REDUCED_MOTION] else "full"
        self._apply_keys()
        self._apply_theme()
        if self.preferences[options.SPELLING] != self.write_screen.editor.spelling:
            self.run_worker(self._apply_spelling, thread=True, exclusive=True, group="spelling")
        if self.write_screen.is_mounted:
            self.write_screen.layout_name = self.preferences[options.LAYOUT]
            self.write_screen.apply_layout()
            self.write_screen.show_authors()
            self._tell_notes()

    def _apply_spelling(self) -> None:
        """On a thread of its own: the word list takes a moment to read."""
        wanted = self.preferences[options.SPELLING]
        try:
            if wanted:
                spelling.word_list()
                spelling.read_again()
        except (ImportError, OSError) as error:
            self.call_from_thread(self.notify, f"Words cannot be looked up: {error}", severity="warning")
            return
        self.call_from_thread(setattr, self.write_screen.editor, "spelling", wanted)

    # ---- themes

    def load_themes(self) -> None:
        """Read all themes; a bad one is said in one line and left out."""
        found, self.complaints = themes.load_all()
        self._add_themes(found)

    def _apply_theme(self) -> None:
        """Show the theme that the writer wants, or else the default one and say why."""
        wanted = self.preferences[options.THEME]
        found = wanted in self.available_themes
        self.theme = wanted if found else themes.DEFAULT
        if not found and wanted != self._theme_missed:
            self.notes.append(themes.explain_missing(wanted, self.complaints))
        self._theme_missed = None if found else wanted

    def _add_themes(self, found: list[Theme]) -> None:
        for theme in found:
            self.register_theme(theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's, and last the theme's own form for a terminal that has few colours."""
        theme = self.current_theme
        terminal = None if self.is_headless else self.console.color_system
        depth = colours.depth(self.preferences[options.COLOURS], terminal)
        if depth is None or theme.ansi or self.no_color:
            return super().get_line_filters()
        if self._form is None or self._form.made_for != (theme, depth):
            self._form = colours.Form(theme, depth)
        return [*super().get_line_filters(), self._form]

    def reload_changed_themes(self) -> None:
        """Show a theme of the writer's own as soon as he saves it."""
        changed = self._watcher.changed()
        if not changed:
            return
        found, complaints = themes.load_all(changed)
        self._add_themes(found)
        for complaint in complaints:
            self.notify(complaint, severity="warning")
        if self.theme in {theme.name for theme in found}:
            self._watch_theme(self.theme)
            self.refresh_css(animate=False)
        if self._theme_missed is not None:
            self._apply_theme()

    # ---- stories

    def recent(self) -> list[tuple[Path, str]]:
        """Stories opened before, the last one first."""
        known = library.RecentStories(paths.recent_file()).all()
        return [(entry.path, entry.title or entry.path.stem) for entry in known if entry.path.exists()]

    def open_story(self, file: Path, notes: Iterable[str] = (), begins: bool = False) -> None:
        """Leave this story and open another: the screen begins again with it, and the model stays.

        ``notes`` is what the writer is told then; with ``begins`` branches are written at once.
        """
        if not self.write_screen.transfers.may_leave():
            return
        self.next_story, self.next_notes, self.next_begins = file, list(notes), begins
        self.write_screen.leave()

    def notify(
        self, message: str, *, title: str = "", severity: SeverityLevel = "information",
        timeout: float | None = None, markup: bool = False,
    ) -> None:  # fmt: skip
        """Tell the writer something, in a line of the screen on top.

        Never read as markup: most of it holds words of a file or a person.
        """
        seconds = self.messages.add(message, severity == "error")
        self.show_messages()
        self.set_timer(seconds, self.show_messages)
        if not isinstance(self.screen, Shows):  # one of Textual's
            super().notify(message, title=title, severity=severity, timeout=timeout, markup=False)

    def show_messages(self) -> None:
        """Let the screen on top show what is to be read now; there may be none left while the app ends."""
        top = self.screen_stack[-1] if self.screen_stack else None
        if isinstance(top, Shows):
            top.show_messages(self.messages.current)

    # ---- life

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's choice, with our own driver in place of the one for Linux and macOS."""
        found = super().get_driver_class()
        return TerminalDriver if found is LinuxDriver else found

    async def action_quit(self) -> None:
        """Textual's own way out: the writer's last words come first."""
        self.write_screen.run("quit")

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.Paste | Burst) and not event.is_forwarded:
            types = not isinstance(event, events.Key) or event.is_printable or event.key in _TYPE
            if types and isinstance(self.focused, ProseArea):
                self._typed_at = time.monotonic()
            self.write_screen.pump.give_way()
            self.session.look_ahead.give_way()
            self.keyboard.take(event)
        else:
            await super().on_event(event)

    def on_mount(self) -> None:
        self._to_terminal("\x1b[22;2t")  # keeps the terminal's own title until the end
        self.apply_preferences()
        self.push_screen(self.write_screen)
        self.set_interval(_LOOK_SECONDS, self.reload_changed_themes)
        for complaint in self.complaints:
            if not any(complaint in note for note in self.notes):
                self.notify(complaint, severity="warning")
        self._tell_notes()
        if not self.is_headless:  # then it is somebody else's process
            signals.obey_signals(self)

    def _fatal_error(self) -> None:
        """Instead of a page of code: what happened, where the report lies, and that the words are safe."""
        with contextlib.suppress(Exception):
            self.session.keep()
        error = self._exception or RuntimeError("unknown")
        self._exit_renderables.append(Text(crash_words(error)))
        self._close_messages_no_wait()

    def show_title(self, story: str, writing: bool) -> None:
        """Name the terminal's window after the story."""
        name = "".join(character for character in story if character.isprintable()) or "srbwriter"
        title = f"{name} {'▸' if writing else ''}".rstrip()
        if title != self.title:
            self.title = title
            self._to_terminal(f"\x1b]2;{title}\x07")

    def _to_terminal(self, sequence: str) -> None:
        if self._driver is not None and not self.is_headless:
            self._driver.write(sequence)

    def on_unmount(self) -> None:
        self.keyboard.close()
        self._to_terminal("\x1b[23;2t")
        self.session.close(keep_model=self.next_story is not None)
