"""Settings of the terminal app: their keys, and their values while the app runs.

A change is saved in the overlay file, never in the writer's own file. This module does not import Textual.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeVar

from srbwriter.config import Key, Settings, Source, Table, remember
from srbwriter.config.kinds import INTEGER, SWITCH, TEXT, Kind, one_of

THEME = Key("interface.theme", TEXT, "lamplight", "colour theme", ("--theme",))
LAYOUTS = ("below", "right")
AUTO = "auto"

LAYOUT = Key(
    "interface.layout",
    one_of(AUTO, *LAYOUTS),
    AUTO,
    "where the branches stand; auto is right of the story from 140 columns on, else below it",
)
PANES = Key(
    "interface.panes",
    one_of("top", "end"),
    "top",
    "what a branch shows while it grows beyond its pane: its beginning, or its end",
)
TEXT_WIDTH = Key("interface.text_width", INTEGER, 76, "widest line of the story, in characters", minimum=30)
CONTINUE = Key("interface.continue", SWITCH, True, "write new branches as soon as one is picked")
REDUCED_MOTION = Key("interface.reduced_motion", SWITCH, False, "no animation")
COLOUR_TOKENS = Key(
    "instruments.colour_tokens",
    one_of("none", "author", "surprisal"),
    "none",
    "colours of words: by who wrote them (author), or of unlikely ones (surprisal)",
)
GOAL = Key("interface.goal", INTEGER, 0, "words to write in a day; 0 is no goal", minimum=0)
CHAPTER_GOAL = Key("interface.chapter_goal", INTEGER, 0, "words of a chapter; 0 is no goal", minimum=0)


def own_keys() -> list[Key[str]]:
    """Return the keys of the section ``[keys]``: comma-separated key names by command of the write screen;
    empty means the default.

    Commands are declared where they are handled, so this imports the whole app.
    """
    import_module("srbwriter.tui.actions")
    from srbwriter.tui.commands import COMMANDS, check_keys

    names = Kind("names of keys, such as x, ctrl+t, f5", "KEYS", check_keys)
    return [
        Key(f"keys.{command.id}", names, "", f"your own keys for: {command.title.lower()}")
        for command in COMMANDS.values()
    ]


OPTIONS: tuple[Key[Any], ...] = (
    THEME, LAYOUT, PANES, TEXT_WIDTH, CONTINUE, REDUCED_MOTION, COLOUR_TOKENS, GOAL,
    CHAPTER_GOAL,
)  # fmt: skip
"""Every row above, in order."""


T = TypeVar("T")


class Preferences:
    """``preferences[KEY]`` is the current value."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._changed: dict[str, Any] = {}
        named = {key.name for key in settings.table}
        self.table = Table(
            [*settings.table, *(key for key in OPTIONS if key.name not in named)], {"keys": own_keys}
        )

    def __getitem__(self, key: Key[T]) -> T:
        if key.name in self._changed:
            return self._changed[key.name]
        return self._settings[key]

    def source(self, key: Key[Any]) -> Source:
        """Return where the value comes from."""
        return "remembered" if key.name in self._changed else self._settings.source(key)

    def put(self, key: Key[Any], value: Any) -> str | None:
        """Use ``value`` from now on and save it.

        Returns:
            None, or the reason why the next run will not use it.
        """
        said = self._settings.source(key)
        self._changed[key.name] = value
        try:
            remember(self.table, {key: value})
        except OSError as error:
            import logging  # which --help need not wait for

            logging.getLogger(__name__).warning("cannot remember %s: %s", key.name, error)
            return f"The change lasts until you quit; it cannot be saved: {error.strerror}"
        if said in ("flag", "environment", "file"):
            return f"The change lasts until you quit; the {said} sets {self._settings[key]} again next time."
        return None
