"""What screens above the write screen have in common: how they look, are opened, closed and speak.

A dialog says what it is in a heading and what its keys do in its foot; between them stands its content. Its
keys are declared where they are handled (:func:`srbwriter.tui.commands.action`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from srbwriter.tui.commands import ANYWHERE, Keyed, action, own_bindings
from srbwriter.tui.widgets.lines import FilterLine, Foot, key_name

if TYPE_CHECKING:
    from srbwriter.tui.app import App
    from srbwriter.tui.messages import Message

Result = TypeVar("Result")
Other = TypeVar("Other")


QUIT = Binding(
    "q", "close", "goes back", show=False, tooltip="Leave a page that is only read.", id="close_page",
    group=Binding.Group("Dialogs"),
)  # fmt: skip
"""For pages on which nothing is typed."""


class Page(Keyed, Screen[Result]):
    """A screen above another that fills the window. ``close`` dismisses it.

    ``OPENED_BY`` is the command whose keys close it as well.
    """

    KEYS = "Dialogs"
    OPENED_BY: ClassVar[str] = ""
    BINDINGS = [Binding("f1", "help", show=False, id=f"help{ANYWHERE}")]

    DEFAULT_CSS = """
    Page .message { height: auto; padding: 0 1; color: $text-accent; }
    Page .message.-error { color: $text-error; }
    """

    if TYPE_CHECKING:

        @property
        def app(self) -> App: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def on_top(self) -> bool:
        """Whether keys go here; Textual's ``is_current`` is also true of one seen behind another."""
        return self.app.screen is self

    def open(self, screen: Screen[Other], then: Callable[[Other | None], None] | None = None) -> None:
        """Show ``screen`` above this one; ``then`` is told what it was dismissed with."""
        self.app.push_screen(screen, then)

    def close(self, result: Result | None = None) -> None:
        """Dismiss this screen, unless it is not the one on top.

        A key can reach a screen that has just opened another above it or has just been left. Dismissing it
        then would take away that other screen, and fail the next time.
        """
        if self.on_top:
            self.dismiss(result)

    @action("close_dialog", "escape", "goes back", priority=False)
    def action_close(self) -> None:
        """Leave a dialog or a page."""
        self.close()

    # ---- keys

    def action_help(self) -> None:
        from srbwriter.tui.screens.help import Help  # which is a page itself

        self.open(Help(page=type(self)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A line that narrows has all keys but those that leave the page."""
        return action in ("close", "help") or not isinstance(self.focused, FilterLine)

    def on_key(self, event: events.Key) -> None:
        if event.key in self._opened_by():
            event.stop()
            self.action_close()

    def _opened_by(self) -> list[str]:
        return [*self.app.keys(self.OPENED_BY), *self.app.anywhere(self.OPENED_BY)]

    def keys_line(self, *without: str) -> str:
        """What the keys of this page do, in a line; all but those of the commands ``without``."""
        keys = self.app.known_keys.of(type(self))
        return " · ".join(
            f"{key_name(keys[binding.id][0])} {binding.description}"
            for binding in own_bindings(type(self))
            if binding.show and binding.id and binding.id in keys and binding.id not in without
        )

    def with_keys(self, words: str) -> str:
        """``words`` with the first key of a command for its name in braces, and all keys for ``{keys}``."""
        keys = self.app.known_keys.of(type(self))
        known = {id: key_name(some[0]) for id, some in keys.items()}
        known |= {"keys": self.keys_line(), "opened_by": " or ".join(map(key_name, self._opened_by()))}
        return _PLACE.sub(lambda place: known.get(place[1], place[0]), words)

    # ---- messages

    def show_messages(self, messages: Sequence[Message]) -> None:
        """Show what is to be read now, above what the keys do."""
        if not self.is_mounted:  # it asks for them when it is resumed
            return
        line = self.query_one_optional(".message", Static)
        if line is None and messages:
            line = Static(classes="message", markup=False)
            self._place(line)
        if line is not None:
            line.display = bool(messages)
            line.update("\n".join(message.words for message in messages))
            line.set_class(any(message.error for message in messages), "-error")

    def _place(self, line: Static) -> None:
        self.mount(line, before=-1 if len(self.children) > 1 else None)

    @on(events.ScreenResume)
    def _resumed(self) -> None:
        self.app.show_messages()


_PLACE = re.compile(r"\{(\w+)\}")


class Dialog(Page[Result], ModalScreen[Result]):
    """A box above another screen.

    ``HEADING`` and ``FOOT`` are what it is and what its keys do, where they are always the same; else
    ``heading`` and ``foot`` are set before it is shown. Keys stand there as :meth:`with_keys` says.
    """

    HEADING: ClassVar[str] = ""
    FOOT: ClassVar[str] = ""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 60%; }
    Dialog > .box {
        width: 84; max-width: 96%; height: auto; max-height: 96%;
        background: $surface; border: round $primary; padding: 0 1;
    }
    Dialog > .box > Static { height: auto; }
    Dialog > .box > .heading { color: $primary; text-style: bold; }
    Dialog > .box > .about { color: $foreground; }
    Dialog > .box > .foot { color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.heading, self.foot = self.HEADING, self.FOOT

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            if self.heading:
                fixed = self.heading == self.HEADING  # else it may hold words of the writer's
                heading = self.with_keys(self.heading) if fixed else self.heading
                yield Static(heading, classes="heading", markup=False)
            yield from self.content()
            if self.foot:
                yield Foot(self.with_keys(self.foot), classes="foot")

    def _place(self, line: Static) -> None:
        box = self.query_one(".box")
        box.mount(line, before=".foot" if self.foot else None)

    def content(self) -> ComposeResult:
        """What stands between heading and foot."""
        yield from ()


class Bar(Dialog[Result]):
    """A dialog of a few lines at the foot of the window, which leaves the rest in view."""

    DEFAULT_CSS = """
    Bar { align: center bottom; background: $background 0%; }
    Bar > .box { width: 100%; max-width: 100%; border: none; background: $panel; }
    Bar > .box > .heading { color: $text-muted; text-style: none; }
    Bar Input { background: $background; }
    """
