"""Steps that keep to one set of adapters: what lies in other spaces of the prefix tree waits for its turn."""

from __future__ import annotations

from collections.abc import Sequence

from .adapters import Turns
from .prefix import SHARED
from .runner import Runner, Track
from .scheduler import Scheduler


class AdapterScheduler(Scheduler):
    """A scheduler of an engine with LoRA adapters; ``turns`` has to be given before the first step."""

    turns: Turns

    def _in_turn(self) -> tuple[Sequence[Runner], Sequence[Track]]:
        writing, feeding = super()._in_turn()
        chosen = self.turns.pick({track.run.space for track in (*writing, *feeding)})
        return self.turns.of_set(writing, _space, chosen), self.turns.of_set(feeding, _space, chosen)

    def make_ready(self, space: int, rows: int) -> None:
        self.turns.pick({space})
        super().make_ready(space, rows)

    def _tidy(self) -> bool:
        if self.tails and not self.lanes.busy:
            self.turns.pick({SHARED})  # the only space whose tails are kept
        return super()._tidy()


def _space(track: Track) -> int:
    return track.run.space
