"""Settings of the terminal app: rows for the program's table of configuration keys.

Pure data, but for the writer's own keys: importing this module must never import Textual.
"""

from __future__ import annotations

from typing import Any

from srbwriter.config.keys import Key
from srbwriter.config.kinds import INTEGER, SWITCH, TEXT, one_of

THEME = Key("interface.theme", TEXT, "lamplight", "colour theme", ("--theme",))
COLOURS = Key(
    "interface.colours",
    one_of("auto", "256", "16"),
    "auto",
    "colours of the terminal; auto is what TERM and COLORTERM say",
)
LAYOUTS = ("below", "right", "column")
AUTO = "auto"
KEYMAPS = ("default", "vim")

LAYOUT = Key(
    "interface.layout",
    one_of(AUTO, *LAYOUTS),
    AUTO,
    "where the branches stand; auto is right of the story from 160 columns on, else below it",
)
SPLIT = Key(
    "interface.split",
    INTEGER,
    40,
    "share of the window that the story has, in percent",
    minimum=15,
    maximum=85,
)
PANES = Key(
    "interface.panes",
    one_of("top", "end"),
    "top",
    "what a branch shows while it grows beyond its pane: its beginning, or its end",
)
KEYMAP = Key("interface.keymap", one_of(*KEYMAPS), "default", "keys for moving about")
FPS = Key[int | None](
    "interface.fps",
    INTEGER,
    None,
    "paints a second while branches are being written; fewer over a network",
    minimum=1,
    maximum=60,
)
TEXT_WIDTH = Key("interface.text_width", INTEGER, 76, "widest line of the story, in characters", minimum=30)
CONTINUE = Key("interface.continue", SWITCH, True, "write new branches as soon as one is picked")
REDUCED_MOTION = Key("interface.reduced_motion", SWITCH, False, "no animation")
SPELLING = Key(
    "interface.spelling",
    SWITCH,
    False,
    "underline words of the story that are in no English list and not in words.txt beside config.toml",
)
PROVENANCE = Key(
    "interface.provenance",
    SWITCH,
    False,
    "tint words of the story that the model wrote, that were edited, and that were imported",
)
GOAL = Key("interface.goal", INTEGER, 0, "words to write in a day; 0 is no goal", minimum=0)


def own_keys() -> list[Key[str]]:
    """The section ``[keys]``: comma-separated key names by command; empty are the keymap's.

    Commands are declared where they are handled, so this loads the app.
    """
    from srbwriter.tui import dialog
    from srbwriter.tui.actions import COMMANDS

    titles = {command.id: command.title for command in COMMANDS.values()}
    titles |= {str(binding.id): binding.description for binding in dialog.own_bindings()}
    about = "your own keys for: "
    return [Key(f"keys.{id}", TEXT, "", about + title.lower()) for id, title in titles.items()]


OPTIONS: tuple[Key[Any], ...] = (
    THEME, COLOURS, LAYOUT, SPLIT, PANES, KEYMAP, FPS, TEXT_WIDTH, CONTINUE, REDUCED_MOTION, SPELLING,
    PROVENANCE, GOAL,
)  # fmt: skip
"""Every row above, in order."""
