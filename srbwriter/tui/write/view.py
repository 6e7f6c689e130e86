"""What the write screen shows besides text; the session keeps it, so that it is there at the next start."""

from __future__ import annotations

from typing import Literal, NamedTuple, cast, get_args

from srbwriter.session.ordering import AS_DRAWN, ORDERS
from srbwriter.story.model import JsonObject, as_list

Focus = Literal["story", "none", "branch"]
"""What has the keys: the story, the story while digits pick (no pane is chosen), or the current pane."""


class View(NamedTuple):
    """The places and choices of the writer on the write screen."""

    cursor: int
    """Offset in the story."""
    focus: Focus = "none"
    pane: int = 0
    """Index of the current branch."""
    order: str = AS_DRAWN
    """Name of the order of panes."""
    panes: tuple[int, ...] = ()
    """Indices of the branches in the order of their panes."""
    large: bool = False
    """Whether one pane fills the screen."""
    takes: tuple[tuple[int, int], ...] = ()
    """Index and characters of each branch that has a taking cursor."""

    def to_json(self) -> JsonObject:
        """Return the view as a JSON object."""
        return self._asdict() | {"panes": [*self.panes], "takes": [[*take] for take in self.takes]}

    @classmethod
    def from_json(cls, kept: JsonObject) -> View | None:
        """Return the view that :meth:`to_json` made; None if ``kept`` holds none."""
        try:
            takes = [as_list(take) for take in as_list(kept["takes"])]
            return cls(
                _number(kept["cursor"]),
                cast(Focus, kept["focus"]) if kept["focus"] in get_args(Focus) else "none",
                _number(kept["pane"]),
                str(kept["order"]) if kept["order"] in ORDERS else AS_DRAWN,
                tuple(_number(index) for index in as_list(kept["panes"])),
                bool(kept["large"]),
                tuple((_number(index), _number(chars)) for index, chars in takes),
            )
        except (KeyError, TypeError, ValueError):
            return None


def _number(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value
