"""One scenario for each command of the table. All assert; a screen that did not open is an assertion too."""

from __future__ import annotations

from tests.tui.scenarios import (  # isort: skip
    ahead, autorun, bans, bin, branches, chapters, convert, knobs, loops, nodes,
    rewriting, steering, stories, story, taking, tokens, variety, view,
    wishes,
)  # fmt: skip
from tests.tui.scenarios.common import SCENARIOS

__all__ = [
    "SCENARIOS", "ahead", "autorun", "bans", "bin", "branches", "chapters", "convert",
    "knobs", "loops", "nodes", "rewriting", "steering", "stories", "story",
    "taking", "tokens", "variety", "view", "wishes",
]  # fmt: skip
