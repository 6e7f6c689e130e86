"""Settings for writing: every parameter of the engine, for new branches or for one running branch.

The few that writers change first stand at the top, with those that were changed; the others under "More".

A change applies at once. The panel edits a setup and reports changes; the caller decides what the setup is
for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.parameters import Parameter
from srbwriter.engine.types import InvalidRequest, number_words
from srbwriter.session.sampling import Usual
from srbwriter.tui import knobs
from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.ask import Ask
from srbwriter.tui.dialogs.base import Dialog
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.knobs import KNOBS, Setup
from srbwriter.tui.widgets.lines import FilterLine, matches

_CHANGED = "* "
_MORE = "More"  # the row that shows or hides the settings below it
_FIRST = "What writers change first"


class Knobs(Dialog[None]):
    """Settings for writing ("knobs" in identifiers).

    ``changed`` is called with every new setup. ``usual`` are the values that nobody changed. The settings of
    ``one_branch`` are those that a running branch can change.
    """

    KEYS = "In the settings for writing"
    OPENED_BY = "knobs"
    FOOT = "{keys}\n* not the usual value"
    DEFAULT_CSS = """
    Knobs { align: right middle; background: $background 40%; }
    Knobs > .box {
        width: 76; max-width: 100%; height: 100%; max-height: 100%; padding: 1;
        border: none; border-left: solid $primary;
    }
    Knobs OptionList { height: 1fr; border: none; background: $surface; margin: 1 0; }
    Knobs > .box > .about { height: 2; }
    """

    def __init__(
        self,
        title: str,
        setup: Setup,
        changed: Callable[[Setup], None],
        can: Capabilities,
        usual: Usual,
        one_branch: bool = False,
    ) -> None:
        super().__init__()
        self.heading, self.setup = title, setup
        self._changed, self._reason_for, self._usual = changed, can.reason_for, usual
        self._knobs: list[Parameter] = [k for k in KNOBS if not one_branch or k.record != "request"]
        self._rows: list[Parameter | str | None] = []
        first = [knob for knob in self._knobs if knob.first]
        others = [k for k in self._knobs if k not in first and self._changed_or_own(k)]
        self._first: list[Parameter] = [*first, *others]
        self._more = False

    def content(self) -> ComposeResult:
        yield FilterLine(lambda: self._list)
        yield OptionList(compact=True)
        yield Static(classes="about", markup=False)

    def on_mount(self) -> None:
        self._fill("temperature")
        self._list.focus()

    @on(FilterLine.Changed)
    def _narrow(self) -> None:
        self._fill()

    def _fill(self, field: str = "") -> None:
        """List the settings; put the cursor on the one of ``field``, or on the first.

        With words in the filter, those that match; else the first ones, and the others if "More" is open.
        """
        words = self.query_one(FilterLine).words
        options: list[Option] = []
        self._rows = []

        def add(heading: str, found: Sequence[Parameter]) -> None:
            if found:
                options.append(Option(Content.styled(heading, "bold $text-muted"), disabled=True))
                options.extend(Option(self._label(knob)) for knob in found)
                self._rows.extend([None, *found])

        if not words:
            add(_FIRST, self._first)
            self._rows.append(_MORE)
            options.append(Option(self._more_label()))
        if words or self._more:
            for group, some in groupby(self._knobs, lambda knob: knob.group):
                heading = knobs.HEADINGS[group]
                shown = [k for k in some if words or k not in self._first]
                add(heading, [k for k in shown if matches(words, k.name, k.title, k.help, group, heading)])
        self._list.clear_options()
        self._list.add_options(options)
        fields = [row.field if isinstance(row, Parameter) else row for row in self._rows]
        if fields:
            self._list.highlighted = fields.index(field) if field and field in fields else 1

    def _more_label(self) -> Content:
        words = "fewer settings" if self._more else f"more settings ({len(self._knobs) - len(self._first)})"
        return Content.styled(f"{'▾' if self._more else '▸'} {words}", "$text-accent")

    def _open_more(self, more: bool) -> None:
        """Show the settings that are rarely changed, or hide them."""
        self._more = more
        self._fill(_MORE)

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)

    @property
    def knob(self) -> Parameter | None:
        """The setting under the cursor."""
        row = self._row
        return row if isinstance(row, Parameter) else None

    @property
    def _row(self) -> Parameter | str | None:
        at = self._list.highlighted
        return None if at is None or at >= len(self._rows) else self._rows[at]

    def _label(self, knob: Parameter) -> Content:
        value = self.setup.get(knob)
        same = value == knobs.value_of(self._usual, knob)
        usual = "" if not self._reason_for(knob) else "$text-disabled"
        return Content.assemble(
            (f"{'  ' if same else _CHANGED}{knob.title:<29}", usual if same else "bold"),
            (knobs.shown(knob, value), usual if same else "bold"),
            ("  of this model" if same and knob.field in self._usual.of_model else "", "$text-muted"),
        )

    def _changed_or_own(self, knob: Parameter) -> bool:
        return self.setup.get(knob) != knobs.value_of(self._usual, knob) or knob.field in self._usual.of_model

    @on(OptionList.OptionHighlighted)
    def _highlighted(self) -> None:
        if (knob := self.knob) is not None:
            why = self._reason_for(knob)
            self.query_one(".about", Static).update(why or f"{knob.help}{_range(knob)} ({knob.name})")
        elif self._row == _MORE:
            self.query_one(".about", Static).update("Settings that writers seldom change.")

    def _refused(self, knob: Parameter) -> bool:
        """Return whether the engine does not support ``knob``; if so, notify the writer of the reason."""
        why = self._reason_for(knob)
        if why:
            self.notify(why, severity="warning")
        return bool(why)

    @on(OptionList.OptionSelected)
    def _clicked(self) -> None:
        self.action_type()

    # ---- keys

    @action("left", "less", -1)
    @action("right", "more", 1)
    def action_turn(self, steps: int) -> None:
        """Change the setting by one step."""
        if self._row == _MORE:
            self._open_more(steps > 0)
            return
        knob = self.knob
        if knob is not None and not self._refused(knob):
            self._take(self.setup.put(knob, knobs.stepped(knob, self.setup.get(knob), steps)))

    @action("enter", "type a value", asks=True)
    def action_type(self) -> bool:
        """Type the setting's value; on "more settings", show or hide them."""
        if self._row == _MORE:
            self._open_more(not self._more)
            return True
        knob = self.knob
        if knob is None or self._refused(knob):
            return False

        def answered(text: str) -> None:
            self._take(self.setup.put(knob, knobs.parse(knob, text)))

        question = f"{knob.title} — {knob.help}{_range(knob)}"
        self.ask(Ask(question, knobs.shown(knob, self.setup.get(knob)), select=True), answered)
        return False

    @action("backspace,delete", "default")
    def action_default(self) -> None:
        """Reset the setting to its usual value."""
        if (knob := self.knob) is not None:
            self._take(self.setup.put(knob, knobs.value_of(self._usual, knob)))

    @action("slash", "narrow")
    def action_narrow(self) -> None:
        """Show only the settings that match some words."""
        self.query_one(FilterLine).begin()

    def _take(self, setup: Setup) -> None:
        self.setup = setup
        for index, knob in enumerate(self._rows):
            if isinstance(knob, Parameter):
                self._list.replace_option_prompt_at_index(index, self._label(knob))
        self._changed(setup)

    @action("p", "presets")
    def action_presets(self) -> None:
        """Choose a preset."""
        before = self.setup
        choices = [
            Choice(file, name, preview=knobs.preset_words(file, before, self._usual))
            for name, file in knobs.presets().items()
        ]

        def looked(file: object) -> None:
            try:
                self._take(knobs.read_preset(file, before, self._usual))  # type: ignore[arg-type]
            except InvalidRequest as error:
                self.notify(str(error), severity="error")

        def picked(file: object) -> None:
            if file is None:
                self._take(before)

        self.app.push_screen(Picker("Presets", choices, looked=looked), picked)


def _range(knob: Parameter) -> str:
    if knob.choices:
        return f" One of {', '.join(knob.choices)}."
    if knob.minimum is None and knob.maximum is None:
        return ""
    low, high = number_words(knob.minimum), number_words(knob.maximum)
    return f" {low} to {high}." if high else f" {low} or more."
