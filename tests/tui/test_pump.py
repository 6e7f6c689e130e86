"""The timer that paints: when it collects garbage, which takes as long as painting."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any, cast

import pytest

from srbwriter.tui.write import pump
from srbwriter.tui.write.pump import Pump


class Screen:
    """A screen on which branches are always being written."""

    writing = True
    app = SimpleNamespace(batch_update=pytest.MonkeyPatch.context)

    def flush(self) -> None:
        """Paint nothing."""

    flush_slowly = flush


def test_garbage_is_collected_between_keys_of_a_writer_who_never_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, collected = [100.0], list[float]()
    clock = SimpleNamespace(monotonic=lambda: now[0], thread_time=lambda: 0.0)
    monkeypatch.setattr(pump, "time", clock)
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, 100 if not collected else 0))
    monkeypatch.setattr(gc, "collect", lambda: collected.append(now[0]))
    timer = Pump(cast(Any, Screen()), 24)
    for pause in (0.02, 0.05, 0.1, 0.2, 0.3):
        timer.give_way()  # a key
        now[0] += pause
        timer.tick()
    assert collected == [pytest.approx(100.37)]
