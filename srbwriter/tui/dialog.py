"""What screens above the write screen have in common: how they look, are opened, closed and speak.

A dialog says what it is in a heading and what its keys do in its foot; between them stands its content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

if TYPE_CHECKING:
    from srbwriter.tui.app import App
    from srbwriter.tui.messages import Message

Result = TypeVar("Result")
Other = TypeVar("Other")


class Page(Screen[Result]):
    """A screen above another that fills the window. ``close`` dismisses it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", show=False, id="close_dialog")
    ]

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

    def action_close(self) -> None:
        self.close()

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


class Dialog(Page[Result], ModalScreen[Result]):
    """A box above another screen.

    ``HEADING`` and ``FOOT`` are what it is and what its keys do, where they are always the same; else
    ``heading`` and ``foot`` are set before it is shown.
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
                yield Static(self.heading, classes="heading", markup=False)
            yield from self.content()
            if self.foot:
                yield Static(self.foot, classes="foot", markup=False)

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


def own_bindings(above: type[Page[Any]] = Page) -> Iterator[Binding]:
    """Bindings of dialogs that the writer may give other keys."""
    for binding in above.BINDINGS if "BINDINGS" in vars(above) else ():
        if isinstance(binding, Binding) and binding.id is not None:
            yield binding
    for below in above.__subclasses__():
        yield from own_bindings(below)
