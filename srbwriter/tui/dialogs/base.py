"""Base classes of the screens above the write screen: appearance, opening, closing, messages.

A dialog has a heading, its content, and a footer with its keys. Keys are declared with
:func:`srbwriter.tui.commands.action`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Static

from srbwriter.tui.commands import ANYWHERE, MENU, Keyed, action

if TYPE_CHECKING:
    from srbwriter.tui.app import App

Result = TypeVar("Result")


class AppScreen(Screen[Result]):
    """A screen of the app. The footer and the help list its own keys before those of Textual's widgets."""

    if TYPE_CHECKING:

        @property
        def app(self) -> App: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        def rank(entry: tuple[str, ActiveBinding]) -> tuple[bool, ...]:
            binding = entry[1].binding
            show, on_branch = binding.show, binding.id is not None and not binding.priority
            late = show and binding.description in ("undo", "quit")  # the first to be out of view
            return not show, not on_branch, late, binding.key == "escape", (binding.id is None) != show

        return dict(sorted(super().active_bindings.items(), key=rank))

    @property
    def on_top(self) -> bool:
        """Whether keys go to this screen; Textual's ``is_current`` is also true for a visible screen in the
        background."""
        return self.app.screen is self

    @property
    def helps(self) -> bool:
        """Whether the panel of keys is shown."""
        return bool(self.query("HelpPanel"))  # whose import is an eighth of all, for Markdown

    def action_help(self) -> None:
        """Show Textual's panel of the keys that work where the focus is, or hide it."""
        if self.helps:
            self.app.action_hide_help_panel()  # pyright: ignore[reportUnknownMemberType]
        else:
            self.app.action_show_help_panel()


class KeyLine(Footer):
    """Textual's footer, composed again only when its keys have changed: that takes a tenth of a second."""

    _made: object = None

    async def recompose(self) -> None:
        keys = self.is_attached and [b[1:3] for b in self.screen.active_bindings.values() if b.binding.show]
        if keys and keys != self._made:
            self._made = keys
            await super().recompose()


class Page(Keyed, AppScreen[Result]):
    """A full-window screen above another. ``close`` dismisses it.

    ``OPENED_BY`` is the command whose keys also close it, ``BADGE`` what the status line calls it.
    """

    OPENED_BY: ClassVar[str] = ""
    BADGE: ClassVar[str] = "QUESTION"
    BINDINGS = [
        Binding("f1", "help", "help", show=False, id=f"help{ANYWHERE}"),
        Binding(MENU, "app.command_palette", "menu", show=False, id=f"menu{ANYWHERE}"),
    ]

    @property
    def badge(self) -> str:
        """The name of the place that has the keys."""
        return self.BADGE

    def close(self, result: Result | None = None) -> None:
        """Dismiss this screen if it is on top.

        A key can reach a screen that has just opened another one, or was just dismissed. Dismissing it then
        would dismiss the other screen, and fail the next time.
        """
        if self.on_top:
            self.dismiss(result)

    @action("escape", "goes back", priority=False)
    def action_close(self) -> None:
        """Close the dialog or page."""
        self.close()

    # ---- keys

    def on_key(self, event: events.Key) -> None:
        known = self.app.known_keys
        if event.key in (*known.plain.get(self.OPENED_BY, []), *known.anywhere.get(self.OPENED_BY, [])):
            event.stop()
            self.action_close()


class Dialog(Page[Result], ModalScreen[Result]):
    """A box above another screen.

    ``HEADING`` is used if it is constant; otherwise set ``heading`` before the dialog is shown.
    """

    HEADING: ClassVar[str] = ""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 60%; }
    Dialog > .box {
        width: 84; max-width: 96%; height: auto; max-height: 96%;
        background: $surface; border: round $primary; padding: 0 1;
    }
    Dialog > .box > Static { height: auto; }
    Dialog > .box > .heading { color: $primary; text-style: bold; }
    Dialog > .box > .about { color: $foreground; }
    Dialog Footer { dock: none; }
    """

    def __init__(self, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self.heading = self.HEADING

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            if self.heading:
                yield Static(self.heading, classes="heading", markup=False)
            yield from self.content()
            yield KeyLine(compact=True, show_command_palette=False)

    def content(self) -> ComposeResult:
        """Yield the widgets between heading and footer."""
        yield from ()


class Bar(Dialog[Result]):
    """A dialog of a few lines at the bottom of the window; the rest stays visible."""

    DEFAULT_CSS = """
    Bar { align: center bottom; background: $background 0%; }
    Bar > .box { width: 100%; max-width: 100%; border: none; background: $panel; }
    Bar > .box > .heading { color: $text-muted; text-style: none; }
    Bar Input { background: $background; }
    Bar Footer { display: none; }
    """
