"""A cost table changes how steps are computed, and nothing of what is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from srbwriter.engine.costs import CostTable, Point, Setting
from srbwriter.engine.engine import Engine
from srbwriter.engine.types import Request, Stop

from .support import decoded_rows, finish, seeded, stepped

TWO, ONE = Setting(2, False), Setting(1, False)
WORDS = "Once upon a time there was a fox."


def table(seconds: dict[int, float], single: dict[int, float] | None = None) -> CostTable:
    points = [Point(TWO, rows, 0, taken) for rows, taken in seconds.items()]
    points += [Point(ONE, rows, 0, taken) for rows, taken in (single or {}).items()]
    return CostTable(TWO, tuple(points), prompt=1e-3, copy_in=1e-6)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with stepped(seed=1) as loaded:
        yield loaded


def use(engine: Engine, costs: CostTable) -> None:
    scheduler = engine._scheduler
    scheduler.costs = scheduler.decoder.costs = engine._cache.storage.costs = costs


def write(engine: Engine, n: int) -> tuple[list[tuple[int, ...]], list[int]]:
    engine.reset()
    engine.process()
    with decoded_rows(engine) as rows:
        request = Request(WORDS, n=n, stop=Stop(max_tokens=12, ignore_eog=True), sampling=seeded(4))
        generation = engine.submit(request)
        finish(engine, generation)
    return [b.ids for b in generation.branches], rows


def writing(rows: Iterable[int]) -> set[int]:
    """Sizes of the steps once branches differ."""
    return set(list(rows)[-6:])


def test_rows_are_added_where_more_of_them_take_less_time(engine: Engine) -> None:
    plain, rows = write(engine, 3)
    assert writing(rows) == {3}
    use(engine, table({1: 1.0, 2: 2.0, 3: 5.0, 4: 3.0}))
    padded, rows = write(engine, 3)
    assert writing(rows) == {4}
    assert padded == plain
    assert engine.stats().evaluated_again["padding"] >= 6
    finish(engine, engine.submit(Request(WORDS, n=2, stop=Stop(max_tokens=3, ignore_eog=True))))
    context = engine._context
    assert context._lib.llama_memory_seq_pos_max(context.memory, context._scratch) == -1


def test_branches_take_turns_where_one_at_a_time_is_faster(engine: Engine) -> None:
    plain, _ = write(engine, 2)
    use(engine, table({1: 1.0, 2: 4.0, 3: 5.0, 4: 6.0}))
    split, rows = write(engine, 2)
    assert writing(rows) == {1}
    assert split == plain


def test_a_full_cache_is_not_padded(engine: Engine) -> None:
    use(engine, table({1: 1.0, 2: 2.0, 3: 5.0, 4: 3.0}))
    engine._context.cells = engine._cache.used_cells + 40
    _, rows = write(engine, 3)
    assert max(rows[1:]) <= 4


def test_threads_follow_the_number_of_rows(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from srbwriter.engine.threads import Threads

    engine._scheduler.threads = threads = Threads(2)
    monkeypatch.setattr(threads, "learn", lambda shape, seconds: 2)
    used: list[int] = []
    monkeypatch.setattr(engine._context, "set_threads", lambda branches, prompt: used.append(branches))
    use(engine, table({1: 5.0, 4: 6.0}, {1: 1.0, 4: 20.0}))
    write(engine, 1)
    assert used[-1] == 1
    write(engine, 4)
    assert used[-1] == 2


def test_what_is_sooner_evaluated_than_copied_is_evaluated(engine: Engine) -> None:
    first, _ = write(engine, 1)
    while engine.call(engine._cache.evict):
        pass
    costs = CostTable(TWO, (Point(TWO, 1, 0, 1.0),), prompt=1e-6, copy_in=1.0)
    use(engine, costs)
    request = Request(WORDS, n=1, stop=Stop(max_tokens=12, ignore_eog=True), sampling=seeded(4))
    generation = engine.submit(request)
    finish(engine, generation)
    assert [b.ids for b in generation.branches] == first
    assert engine.stats().evaluated_again["cheaper"] > 4
    assert engine.stats().restored_tokens == 0
