"""Settings for writing: every parameter of the engine, for new branches or for one running branch.

The few that writers change first stand at the top, with those that were changed; the others under "More".

A change applies at once. The panel edits a setup and reports changes; the caller decides what the setup is
for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import groupby

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.parameters import Parameter
from srbwriter.engine.types import InvalidRequest, number_words
from srbwriter.session.sampling import Sweep, Usual
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

    ``changed`` is called with every new setup, ``spread`` with a new sweep or None to remove it. ``ladder``
    is the current sweep. ``usual`` are the values that nobody changed, and ``of_model`` the names of
    those that suit the model.
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
    Knobs .ladder { color: $text-accent; height: auto; display: none; }
    Knobs > .box > .about { height: 2; }
    """

    def __init__(
        self,
        title: str,
        setup: Setup,
        changed: Callable[[Setup], None],
        spread: Callable[[Sweep | None], None] | None = None,
        ladder: Sweep | None = None,
        can: Capabilities | None = None,
        usual: Usual = knobs.USUAL,
        of_model: Collection[str] = (),
    ) -> None:
        super().__init__()
        self._usual, self._of_model = usual, of_model
        self._reason_for = (can or Capabilities()).reason_for
        self.heading, self.setup = title, setup
        self._changed, self._spread, self.ladder = changed, spread, ladder
        whole = spread is not None  # a round, not one branch
        self._knobs: list[Parameter] = [knob for knob in KNOBS if whole or knob.record != "request"]
        self._rows: list[Parameter | str | None] = []
        first = [knob for knob in self._knobs if knob.first]
        others = [k for k in self._knobs if k not in first and self._changed_or_own(k)]
        self._first: list[Parameter] = [*first, *others]
        self._more = False

    def keys_line(self, *without: str) -> str:
        return super().keys_line(*without, *(["sweep across branches"] if self._spread is None else []))

    def content(self) -> ComposeResult:
        yield FilterLine(lambda: self._list)
        yield Static(classes="ladder", markup=False)
        yield OptionList(compact=True)
        yield Static(classes="about", markup=False)

    def on_mount(self) -> None:
        self._fill("temperature")
        self._list.focus()
        self._show_ladder()

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
        spread = self._spread_over(knob)
        same = value == knobs.value_of(self._usual, knob) and not spread
        usual = "" if not self._reason_for(knob) else "$text-disabled"
        return Content.assemble(
            (f"{'  ' if same else _CHANGED}{knob.title:<29}", usual if same else "bold"),
            (
                f"{spread} across the branches" if spread else knobs.shown(knob, value),
                usual if same else "bold",
            ),
            ("  of this model" if same and knob.field in self._of_model else "", "$text-muted"),
        )

    def _changed_or_own(self, knob: Parameter) -> bool:
        return self.setup.get(knob) != knobs.value_of(self._usual, knob) or knob.field in self._of_model

    def _spread_over(self, knob: Parameter) -> str:
        """Return the sweep of ``knob`` in words; empty if it has none."""
        if self.ladder is None or knob not in knobs.LADDERS or self.ladder[0] != knob.field:
            return ""
        return knobs.ladder_words(knob, *self.ladder[1:])

    def _show_ladder(self) -> None:
        line = self.query_one(".ladder", Static)
        knob = next((knob for knob in knobs.LADDERS if self._spread_over(knob)), None)
        line.display = knob is not None
        if knob is not None:
            line.update(
                f"Sweep: {knob.title} {self._spread_over(knob)} from the first new branch to the "
                "last. Change the setting, or press backspace on it, to remove the sweep."
            )

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
            self._level(knob)
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
            self._level(knob)
            self._take(self.setup.put(knob, knobs.parse(knob, text)))

        question = f"{knob.title} — {knob.help}{_range(knob)}"
        self.ask(Ask(question, knobs.shown(knob, self.setup.get(knob)), select=True), answered)
        return False

    @action("backspace,delete", "default")
    def action_default(self) -> None:
        """Reset the setting to its usual value."""
        if (knob := self.knob) is not None:
            self._level(knob)
            self._take(self.setup.put(knob, knobs.value_of(self._usual, knob)))

    @action("slash", "narrow")
    def action_narrow(self) -> None:
        """Show only the settings that match some words."""
        self.query_one(FilterLine).begin()

    def _take(self, setup: Setup) -> None:
        self.setup = setup
        self._relabel()
        self._changed(setup)

    def _relabel(self) -> None:
        for index, knob in enumerate(self._rows):
            if isinstance(knob, Parameter):
                self._list.replace_option_prompt_at_index(index, self._label(knob))
        self._show_ladder()

    def _level(self, knob: Parameter) -> None:
        """Remove the sweep if it varies ``knob``, so that all branches have one value."""
        if self._spread_over(knob):
            self._set_sweep(None)

    def _set_sweep(self, ladder: Sweep | None) -> None:
        self.ladder = ladder
        if self._spread is not None:
            self._spread(ladder)
        self._relabel()

    # ---- presets and sweeps

    @action("p", "presets")
    def action_presets(self) -> None:
        """Choose a saved preset."""
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

    @action("s", "keep as preset", asks=True)
    def action_keep(self) -> None:
        """Save all these settings as a preset."""

        def answered(name: str) -> None:
            if name:
                self.notify(f"Saved in {knobs.write_preset(name, self.setup)}")

        self.ask(Ask("Name of the preset"), answered)

    @action("l", "sweep across branches", asks=True)
    def action_ladder(self) -> None:
        """Vary the setting from the first branch to the last."""
        knob = self.knob
        if knob is None or self._refused(knob):
            return
        if self._spread is None:
            self.notify("A sweep is for all branches. F2 opens the settings for them.")
            return
        if knob not in knobs.LADDERS:
            self.notify(f"{knob.title} cannot be varied across branches.")
            return
        value = self.setup.get(knob)
        ends = knobs.stepped(knob, value, -8), knobs.stepped(knob, value, 8)
        self._ask_ladder(knob, self._spread_over(knob) or knobs.ladder_words(knob, *ends))

    def _ask_ladder(self, knob: Parameter, now: str, wrong: str = "") -> None:
        """Ask for the two ends of a sweep, with ``now`` as the initial text; ask again after an error
        (``wrong``)."""

        def answered(text: str) -> None:
            try:
                ends = knobs.parse_ladder(knob, text)
            except InvalidRequest as error:
                self._ask_ladder(knob, text, f"{error}\n")
                return
            if ends is not None:
                self._set_sweep((knob.field, *ends))
            else:
                self._level(knob)

        question = f"{knob.title} from the first branch to the last: two values, or nothing for no sweep"
        self.ask(Ask(wrong + question, now, select=True), answered)


def _range(knob: Parameter) -> str:
    if knob.choices:
        return f" One of {', '.join(knob.choices)}."
    if knob.minimum is None and knob.maximum is None:
        return ""
    low, high = number_words(knob.minimum), number_words(knob.maximum)
    return f" {low} to {high}." if high else f" {low} or more."
