"""Settings of the terminal app: rows for the program's table of configuration keys.

Pure data: this module must never import Textual.
"""

from __future__ import annotations

from srbwriter.config.keys import Key
from srbwriter.config.kinds import INTEGER, SWITCH, TEXT, one_of

THEME = Key("interface.theme", TEXT, "lamplight", "colour theme", ("--theme",))
LAYOUTS = ("below", "right", "column")
KEYMAPS = ("default", "vim")

LAYOUT = Key("interface.layout", one_of(*LAYOUTS), "below", "where the branches stand")
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
GOAL = Key("interface.goal", INTEGER, 0, "words to write in a day; 0 is no goal", minimum=0)

OPTIONS: tuple[Key[object], ...] = tuple(row for row in list(globals().values()) if isinstance(row, Key))
"""Every row above, in order."""
