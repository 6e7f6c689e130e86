"""The cost table: what follows from measured times, the file it is kept in, and measuring itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.demo import bundled_model
from srbwriter.engine import measuring
from srbwriter.engine.costs import CostTable, Point, Setting, costs_dir, keep_table, read_table
from srbwriter.engine.measuring import measure, table_for, table_key
from srbwriter.engine.model import Model
from srbwriter.engine.types import EngineOptions

from .support import toy_model
from .toy_models import make_gemma, make_jamba, make_mamba

ONE = EngineOptions(gpu_layers=0, threads=1)
USUAL = Setting(2, False)


def table(*times: tuple[int, float], **fields: object) -> CostTable:
    """(rows, milliseconds), in an empty cache."""
    return CostTable(USUAL, tuple(Point(USUAL, rows, 0, ms / 1000) for rows, ms in times), **fields)  # type: ignore[arg-type]


def test_two_rows_that_take_longer_than_twice_one_are_computed_one_by_one() -> None:
    q8_0 = table((1, 6.6), (2, 27.1), (4, 28.0), (8, 30.0))
    assert q8_0.split(2) == (1, 1)
    assert q8_0.split(3) == (1, 1, 1)
    assert q8_0.split(8) == (8,)


def test_a_step_is_padded_to_the_number_of_rows_that_takes_less() -> None:
    q4_0 = table((1, 1.8), (3, 4.6), (4, 3.2), (7, 7.8), (8, 6.4), (15, 14.5), (16, 10.7))
    assert [q4_0.padded(n) for n in (1, 3, 4, 7, 8, 15, 16)] == [1, 4, 4, 8, 8, 16, 16]
    assert q4_0.split(2) == (2,), "two rows cost no more than four, and four less than twice one"


def test_a_gain_too_small_to_be_sure_of_changes_nothing() -> None:
    even = table((1, 10.0), (2, 10.2), (3, 12.0), (4, 11.8))
    assert even.padded(3) == 3
    assert even.split(4) == (4,)


def test_numbers_between_and_beyond_the_measured_lie_on_a_line() -> None:
    times = table((2, 10.0), (4, 14.0))
    assert times.seconds(3) == pytest.approx(0.012)
    assert times.seconds(6) == pytest.approx(0.018)
    assert times.seconds(1) == pytest.approx(0.010)


def test_cells_in_use_make_a_step_longer() -> None:
    deep = CostTable(USUAL, (Point(USUAL, 1, 0, 0.010), Point(USUAL, 1, 2000, 0.030)))
    assert deep.seconds(1, 1000) == pytest.approx(0.020)
    assert deep.seconds(1, 4000) == pytest.approx(0.050)


def test_the_fastest_threads_and_attention_are_chosen() -> None:
    one, flash = Setting(1, False), Setting(2, True)
    points = (
        Point(USUAL, 1, 0, 0.010), Point(one, 1, 0, 0.005),
        Point(USUAL, 8, 0, 0.010), Point(one, 8, 0, 0.019),
        Point(USUAL, 1, 2048, 0.050), Point(flash, 1, 2048, 0.020),
    )  # fmt: skip
    found = CostTable(USUAL, points)
    assert found.threads(1) == 1
    assert found.threads(8) == 2
    assert found.flash
    assert CostTable(flash, points).flash
    assert CostTable(USUAL, points[:4]).flash is False, "where only one way was measured, it is used"


def test_a_table_of_a_busy_machine_decides_nothing() -> None:
    noise = table((1, 900.0), (2, 5.0), (3, 400.0), (4, 1.0), steady=False)
    assert noise.padded(3) == 3
    assert noise.split(3) == (3,)
    assert noise.threads(1) == USUAL.threads


def test_a_copy_is_weighed_against_evaluating() -> None:
    cheap = table((1, 1.0), prompt=1e-3, copy_in=1e-5)
    assert cheap.copying_is_cheaper(100)
    dear = replace(cheap, copy_in=1e-2)
    assert not dear.copying_is_cheaper(100)
    state = replace(dear, whole=True)  # one state, however many tokens it stands for
    assert state.copying_is_cheaper(100)
    assert not state.copying_is_cheaper(5)
    step = table((1, 20.0), prompt=1e-3, copy_in=1e-2)
    assert step.copying_is_cheaper(1) and not step.copying_is_cheaper(2), "evaluating takes a step at least"
    assert replace(dear, steady=False).copying_is_cheaper(100), "measured on a busy machine"


def test_an_empty_table_says_that_it_knows_nothing() -> None:
    empty = CostTable(USUAL, ())
    assert empty.seconds(4) is None
    assert (empty.padded(3), empty.split(3), empty.threads(1), empty.flash) == (3, (3,), 2, False)
    assert empty.copying_is_cheaper(1)


seconds = st.floats(1e-6, 10.0)
settings = st.builds(Setting, st.integers(1, 64), st.booleans())
points = st.builds(Point, settings, st.integers(1, 64), st.sampled_from([0, 2048]), seconds)
tables = st.builds(
    CostTable, settings, st.lists(points, max_size=20).map(tuple), seconds, seconds, seconds, seconds,
    st.booleans(), st.booleans(), seconds,
)  # fmt: skip


@given(tables)
def test_a_table_is_read_as_it_was_written(written: CostTable) -> None:
    assert CostTable.from_json(written.to_json()) == written


@given(tables, st.integers(1, 40), st.integers(0, 9000))
def test_every_table_answers_every_question(found: CostTable, rows: int, cells: int) -> None:
    assert rows <= found.padded(rows) <= 2 * rows
    sizes = found.split(rows)
    assert list(accumulate(sizes))[-1] == rows and min(sizes) > 0
    assert found.threads(rows, cells) in {s.threads for s in found.settings}
    time_taken = found.seconds(rows, cells)
    assert time_taken is None or time_taken > 0


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from(sorted(json.loads(table((1, 1.0)).to_json()))), json_values)
def test_a_table_with_any_other_value_is_refused_or_still_answers(name: str, value: object) -> None:
    text = json.dumps({**json.loads(table((1, 1.0)).to_json()), name: value})
    try:
        found = CostTable.from_json(text)
    except ValueError:
        return
    assert found.padded(3) >= 3
    assert found.copying_is_cheaper(3) in (True, False)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"version": 1}', "[" * 100_000])
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        CostTable.from_json(text)


def test_a_damaged_file_is_as_good_as_none() -> None:
    kept = table((1, 1.0))
    keep_table("key", kept)
    assert read_table("key") == kept
    (costs_dir() / "key.json").write_text('{"version": 1')
    assert read_table("key") is None
    assert read_table("another") is None


def test_only_so_many_tables_are_kept() -> None:
    for number in range(70):
        keep_table(str(number), table((1, 1.0)))
    assert len(list(costs_dir().iterdir())) == 64


# ---- measuring


@pytest.mark.parametrize("make", [None, make_gemma, make_jamba, make_mamba])
def test_measuring_finds_times_of_steps_of_prompts_and_of_copies(
    make: Callable[[Path], Path] | None,
) -> None:
    model = Model(toy_model(make) if make else bundled_model(), ONE)
    try:
        found = measure(model, ONE, seconds=30.0)  # however slow the machine is
    finally:
        model.close()
    usual = {(point.rows, point.cells) for point in found.points if point.setting == found.usual}
    deep = {(rows, 2048) for rows in measuring.DEEP} if model.partial_removal else set()
    assert usual == {(rows, 0) for rows in measuring.ROWS} | deep
    assert {point.setting.flash for point in found.points} == ({True, False} if deep else {False})
    assert found.prompt > 0 and found.copy_out > 0 and found.copy_in > 0 and found.state_bytes > 0
    assert found.whole is not model.partial_removal


def test_a_cache_that_needs_flash_attention_is_measured_with_it_only() -> None:
    options = replace(ONE, cache_type_v="q8_0")
    model = Model(bundled_model(), options)
    try:
        found = measure(model, options, seconds=0.5)
    finally:
        model.close()
    assert found.usual.flash and {point.setting.flash for point in found.points} == {True}


def test_measuring_ends_when_its_time_is_over(caplog: pytest.LogCaptureFixture) -> None:
    model = Model(bundled_model(), ONE)
    try:
        started = time.perf_counter()
        found = measure(model, ONE, seconds=0.02)
    finally:
        model.close()
    assert time.perf_counter() - started < 10.0
    assert len(found.points) < len(measuring.ROWS), "not everything fits into so short a time"
    assert found.padded(3) >= 3
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_a_model_is_measured_once() -> None:
    model = Model(toy_model(make_mamba), ONE)
    try:
        first = replace(table_for(model, ONE), steady=True)
        keep_table(table_key(model.path, ONE), first)
        assert table_for(model, ONE) == first
    finally:
        model.close()


def test_a_table_of_a_busy_machine_is_measured_again() -> None:
    model = Model(toy_model(make_mamba), ONE)
    try:
        busy = replace(table((1, 1.0)), steady=False)
        keep_table(table_key(model.path, ONE), busy)
        assert table_for(model, ONE) != busy
    finally:
        model.close()


def test_another_file_or_another_way_to_run_it_has_another_table(tmp_path: Path) -> None:
    gemma, other = make_gemma(tmp_path / "a.gguf"), make_gemma(tmp_path / "b.gguf", seed=2)
    same = make_gemma(tmp_path / "c.gguf")
    assert table_key(gemma, ONE) == table_key(same, ONE)
    assert table_key(gemma, ONE) != table_key(other, ONE)
    assert table_key(gemma, ONE) != table_key(gemma, replace(ONE, cache_type_k="q8_0"))
