"""Cells, host memory and disk: what leaves the cells comes back by a copy, and is what it was."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srbwriter.engine.cache import Cache
from srbwriter.engine.disk import DiskCache
from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.memory import IDLE_CELLS
from srbwriter.engine.tree import SHARED, Demand
from srbwriter.engine.types import EngineOptions, InvalidRequest, Priority, Request, Stop
from tests.fakes.shared_model import load_engine

from .support import (
    GREEDY,
    Reference,
    assert_same_logits,
    decoded_rows,
    drive,
    exact_model,
    finish,
    forcing,
    rest,
    seeded,
    short_model,
    spill,
)
from .test_memories import HYBRID, SLIDING, assert_right, evict_all, load, path_of, seen_after, write

ONE = Stop(max_tokens=1, ignore_eog=True)


def small(model: Path | None = None, **options: Any) -> Engine:
    chosen = {"n_ctx": 1024, "gpu_layers": 0, "seed": 1, "threads": 1, **options}
    engine = load_engine(model or short_model(), EngineOptions(**chosen), thread=False)
    return engine


def opened(kind: str, **options: Any) -> Engine:
    """An engine whose memory is of this kind."""
    return small(**options) if kind == "attention" else load(kind, **options)


def words(engine: Engine, count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(100, engine.info.n_vocab - 10, count).tolist()


def panes(engine: Engine, prompt: list[int], n: int, tokens: int, **more: Any) -> Generation:
    request = Request(
        prompt,
        n=n,
        stop=Stop(max_tokens=tokens, ignore_eog=True),
        priority=Priority.FOREGROUND,
        sampling=seeded(n),
        add_bos=False,
        **more,
    )
    generation = engine.submit(request)
    finish(engine, generation)
    return generation


def read(engine: Engine, prompt: list[int]) -> None:
    """Evaluate a prompt for a request in the background of the screen."""
    finish(engine, engine.submit(Request(prompt, stop=ONE, sampling=GREEDY, add_bos=False)))


def whole(engine: Engine, branch: Branch) -> bool:
    path = path_of(branch)
    return engine.resident(path) == len(path)


# ---- what is on the screen stays


@pytest.mark.parametrize(("n", "tokens"), [(12, 100)])
def test_every_pane_stays_whole_and_a_pick_evaluates_one_row(n: int, tokens: int) -> None:
    with small(n_ctx=1536) as engine:
        generation = panes(engine, words(engine, 40), n, tokens)
        rest(engine)
        assert all(whole(engine, branch) for branch in generation.branches)
        for branch in generation.branches:
            with decoded_rows(engine) as rows:
                panes(engine, path_of(branch), 4, 1)
            assert sum(rows) <= 1 + 4  # its last token, and the first ones of the new branches
            rest(engine)
        assert all(whole(engine, branch) for branch in generation.branches)


def test_rounds_that_lie_back_are_whole() -> None:
    with small(n_ctx=768) as engine:
        rounds = [panes(engine, words(engine, 60), 8, 32)]
        for _ in range(5):
            rounds.append(panes(engine, path_of(rounds[-1].branches[3]), 8, 32))
            rest(engine)
        assert all(whole(engine, branch) for generation in rounds for branch in generation.branches)
        for generation in (rounds[0], rounds[1], rounds[5]):
            with decoded_rows(engine) as rows:
                panes(engine, path_of(generation.branches[6]), 8, 1)
            assert sum(rows) <= 1 + 8
            rest(engine)


def test_branches_that_gave_way_read_nothing_again() -> None:
    """More panes than there are cells: they take turns, by copies."""
    with small(n_ctx=256) as engine, decoded_rows(engine) as rows:
        generation = engine.submit(
            Request(
                words(engine, 100),
                n=12,
                stop=Stop(max_tokens=60, ignore_eog=True),
                sampling=seeded(2),
                add_bos=False,
            )
        )
        finish(engine, generation)
        assert {len(b.ids) for b in generation.branches} == {60}
        again = engine.stats().evaluated_again
        assert set(again) <= {"logits"}
        assert sum(rows) <= 100 + 12 * 59 + again.get("logits", 0)
        assert engine.stats().restored_tokens > 0


# ---- what nobody runs costs nothing


def test_only_what_runs_is_in_cells_while_it_runs() -> None:
    with small(n_ctx=4096) as engine:
        for k in range(10):
            read(engine, words(engine, 300, k))
        generation = engine.submit(
            Request(words(engine, 100, 99), n=2, stop=Stop(max_tokens=20, ignore_eog=True))
        )
        drive(engine, lambda: len(generation.branches[0].ids) > 5)
        assert engine.stats().used_cells <= 100 + 2 * 20 + IDLE_CELLS
        finish(engine, generation)
        assert [engine.resident(words(engine, 300, k)) for k in range(10)] == [300] * 10


def test_no_step_waits_until_all_that_gives_way_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srbwriter.engine.cache.COPYING_SECONDS", 0.0)
    with small() as engine:
        prompt = words(engine, 60)
        first = panes(engine, prompt, 8, 64)
        saved = [engine.stats().saved_tokens]
        pick = path_of(first.branches[3])
        picked = engine.submit(Request(pick, n=2, stop=Stop(max_tokens=16, ignore_eog=True)))
        while not picked.done:
            engine.process()
            saved.append(engine.stats().saved_tokens)
        steps = np.diff(saved)
        assert 0 < max(steps) <= 64  # no more than one branch
        assert sum(steps) >= 7 * 64 - IDLE_CELLS
        assert engine.stats().used_cells <= 60 + 64 + 2 * 16 + IDLE_CELLS


def test_a_picked_branch_comes_back_in_one_piece() -> None:
    with small(exact_model()) as engine, closing(Reference(engine)) as reference:
        first = panes(engine, words(engine, 230), 8, 64)  # the branches cross a boundary of pieces
        rest(engine)
        before = engine.stats()
        path = path_of(first.branches[3])
        picked = panes(engine, path, 2, 1)
        after = engine.stats()
        assert after.prompt_rows == before.prompt_rows  # its last token, too, was evaluated at rest
        assert 56 < after.restored_tokens - before.restored_tokens <= 64  # some begin alike
        assert after.used_cells <= 230 + 64 + IDLE_CELLS
        for ids in (path, path_of(picked.branches[0])):  # in one go there, in steps of eight rows here
            assert_same_logits(seen_after(engine, ids), reference.logits(ids)[0], 5e-2)


@pytest.mark.parametrize("kind", ["attention", SLIDING])
def test_cells_that_lie_scattered_are_moved_together(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = kind == "attention"
    with small(exact_model(), n_ctx=2048) if exact else load(kind, n_ctx=2048) as engine:
        reference = Reference(engine, cells=1024)
        moved: list[int] = []
        compact = engine._context.compact
        monkeypatch.setattr(engine._context, "compact", lambda: moved.append(1) or compact())
        for k in range(2):
            read(engine, words(engine, 700, k))
        seen: dict[int, list[Any]] = {}
        script = words(engine, 30, 7)
        generation = engine.submit(
            Request(
                words(engine, 50, 9),
                n=2,
                stop=Stop(max_tokens=30, ignore_eog=True),
                logits_callback=forcing([script, script[::-1]], seen),
                add_bos=False,
            )
        )
        drive(engine, lambda: len(generation.branches[1].ids) > 10)
        other = engine.submit(Request(words(engine, 200, 3), stop=ONE, sampling=GREEDY, add_bos=False))
        finish(engine, generation, other)
        assert moved
        for index, ids in enumerate((script, script[::-1])):
            fresh = reference.logits([*generation.prompt_ids, *ids[:-1]], last=30)
            for found, alone in zip(seen[index], fresh, strict=True):
                assert_same_logits(found, alone, most=5e-2)
        reference.close()


@pytest.mark.parametrize("kind", [SLIDING, HYBRID])
def test_what_comes_back_is_what_left(kind: str) -> None:
    with load(kind) as engine:
        generation = write(engine)
        longer = write(engine, path_of(generation.branches[1]))
        evict_all(engine)
        reference = Reference(engine, cells=512)
        held = [path_of(b) for g in (generation, longer) for b in g.branches]
        with decoded_rows(engine) as rows:
            for path in held:
                write(engine, path, n=1, stop=ONE)
        assert sum(rows) <= len(held)  # the last tokens
        evict_all(engine)
        assert_right(engine, reference, *held)
        if kind == SLIDING:  # it can be resumed anywhere, also within the part that one state holds
            assert_right(engine, reference, *(path[: len(path) - 5] for path in held))
        reference.close()


# ---- budgets


def test_memory_keeps_to_its_budget_and_what_is_on_the_screen_longest() -> None:
    with small(host_bytes=1) as probe:
        panes(probe, words(probe, 100), 1, 1)
        rest(probe)
        assert probe.stats().host_bytes <= 1
    with small() as probe:
        panes(probe, words(probe, 100), 1, 1)
        rest(probe)
        of_100 = probe.stats().host_bytes
    with small(host_bytes=4 * of_100) as engine:
        shown = panes(engine, words(engine, 100), 1, 1)
        for k in range(1, 20):
            read(engine, words(engine, 100, k))
            rest(engine)
            assert engine.stats().host_bytes <= 4 * of_100
        spill(engine)
        assert engine.resident(shown.prompt_ids) == 100
        assert engine.resident(words(engine, 100, 19)) == 100
        assert engine.resident(words(engine, 100, 2)) < 100


def test_a_killed_branch_leaves_every_tier() -> None:
    with small() as engine:
        callback = forcing([[10], [11], [12]], {})  # nothing in common
        generation = panes(engine, words(engine, 50), 3, 40, logits_callback=callback)
        rest(engine)
        spill(engine)
        killed, *others = generation.branches
        killed.kill()
        engine.process()
        assert engine.resident(path_of(killed)) == 50
        assert all(whole(engine, branch) for branch in others)


def test_a_state_whose_end_was_thrown_away_is_written_down_all_the_same(tmp_path: Path) -> None:
    """A branch that left the cells in one piece, was gone on from amid that, and was killed."""
    with small(disk_dir=tmp_path / "states") as engine:
        first = panes(engine, words(engine, 20), 1, 40)
        spill(engine)
        killed = first.branches[0]
        runs = [*first.prompt_ids, *killed.ids[:20], *words(engine, 3, seed=1)]
        second = panes(engine, runs, 1, 8)
        killed.kill()
        engine.process()
        held = engine.resident(path_of(second.branches[0]))
        rest(engine)
        assert engine.resident(path_of(second.branches[0])) >= held
        assert engine.stats().disk_bytes > 0
        part = path_of(killed)[:30]
        assert engine.save_session(tmp_path / "session.bin", part)[0] == 30
        engine.reset()
        assert engine.load_session(tmp_path / "session.bin") == part


# ---- the disk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "states"


def greedy_ids(engine: Engine, prompt: list[int]) -> tuple[int, ...]:
    generation = engine.submit(
        Request(prompt, stop=Stop(max_tokens=6, ignore_eog=True), sampling=GREEDY, add_bos=False)
    )
    finish(engine, generation)
    return generation.branches[0].ids


@pytest.mark.parametrize("kind", ["attention", SLIDING, HYBRID])
def test_a_story_that_is_opened_again_is_not_read_again(kind: str, folder: Path) -> None:
    with opened(kind, disk_dir=str(folder)) as engine:
        prompt = words(engine, 300)
        generation = panes(engine, prompt, 3, 20)
        deeper = panes(engine, path_of(generation.branches[1])[:-8], 2, 12)  # cuts what was stored
        paths = [path_of(b) for g in (generation, deeper) for b in g.branches]
        rest(engine)
        expected = [greedy_ids(engine, path) for path in paths]
    with opened(kind, disk_dir=str(folder)) as engine:
        assert [engine.resident(path) for path in paths[:3]] >= [len(path) - 1 for path in paths[:3]]
        with decoded_rows(engine) as rows:
            assert greedy_ids(engine, paths[0]) == expected[0]
        assert sum(rows) <= 1 + 6
        assert [greedy_ids(engine, path) for path in paths] == expected
        engine.reset()
        engine.process()
        assert engine.stats().disk_bytes == 0
        assert engine.resident(paths[0]) == 0


@pytest.fixture(scope="module")
def written(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Engine, Path, list[int], tuple[int, ...]]]:
    """An engine, the folder it has filled, a prompt, and what follows it."""
    folder = tmp_path_factory.mktemp("states")
    with small(disk_dir=str(folder)) as engine:
        prompt = words(engine, 400)
        panes(engine, prompt, 2, 30)
        rest(engine)
        expected = greedy_ids(engine, prompt)
        disk = engine._cache.archive.disk
        assert disk is not None
        disk.flush()
        assert len(list(disk.folder.iterdir())) >= 3
        yield engine, disk.folder, prompt, expected


def test_a_damaged_file_is_read_again_by_the_model(
    written: tuple[Engine, Path, list[int], tuple[int, ...]], tmp_path: Path
) -> None:
    engine, pristine, prompt, expected = written
    for seed in range(12):
        folder = tmp_path / str(seed) / pristine.name
        shutil.copytree(pristine, folder)
        damage_file(folder, seed)
        cache: Cache = engine._cache
        cache.archive.disk = DiskCache(folder.parent, pristine.name)
        engine.call(cache.clear)
        assert greedy_ids(engine, prompt) == expected, seed


def damage_file(folder: Path, seed: int) -> None:
    """Cut one or two of the files in ``folder`` short, or change a bit of each."""
    rng = np.random.default_rng(seed)
    for file in rng.choice(sorted(folder.iterdir()), size=1 + seed % 2, replace=False):
        data = bytearray(file.read_bytes())
        if seed % 3 == 0:
            del data[int(rng.integers(0, len(data))) :]
        else:
            # half of them in the head, where lengths and tokens stand
            place = int(rng.integers(0, len(data) if seed % 2 else min(len(data), 300)))
            data[place] ^= 1 << int(rng.integers(0, 8))
        file.write_bytes(data)


def test_files_of_another_model_or_build_are_not_looked_at(
    written: tuple[Engine, Path, list[int], tuple[int, ...]], tmp_path: Path
) -> None:
    engine, pristine, prompt, expected = written
    shutil.copytree(pristine, tmp_path / "another")
    cache: Cache = engine._cache
    cache.archive.disk = DiskCache(tmp_path, "another")
    engine.call(cache.clear)
    assert engine.resident(prompt) == 0
    assert greedy_ids(engine, prompt) == expected


def test_the_folder_keeps_to_its_budget(folder: Path) -> None:
    with small(disk_dir=str(folder), disk_bytes=1 << 20) as engine:
        for k in range(6):
            panes(engine, words(engine, 100, k), 1, 1)
            rest(engine)
            disk = engine._cache.archive.disk
            assert disk is not None
            disk.flush()
            files = list(folder.rglob("*.kv"))
            assert sum(file.stat().st_size for file in files) <= 1 << 20
            assert not any(path.stat().st_mode & 0o077 for path in (folder, *files))  # they can be read back
        assert engine.stats().disk_bytes > 0


def test_a_folder_of_no_bytes_is_neither_written_nor_read(folder: Path) -> None:
    with small(disk_dir=str(folder), disk_bytes=0) as engine:
        paths = [path_of(branch) for branch in panes(engine, words(engine, 300), 2, 10).branches]
        rest(engine)
    assert not folder.exists()
    with small(disk_dir=str(folder)) as engine:
        panes(engine, paths[0], 1, 1)
        rest(engine)
    there = {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in folder.rglob("*.kv")}
    assert there
    with small(disk_dir=str(folder), disk_bytes=0) as engine:
        assert engine.resident(paths[0]) == 0
        assert engine.stats().disk_bytes == 0
        with decoded_rows(engine) as rows:
            panes(engine, paths[0], 1, 1)
        assert sum(rows) >= len(paths[0])
        rest(engine)
        engine.reset()
        engine.process()
    assert {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in folder.rglob("*.kv")} == there


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_cache(tmp_path: Path) -> None:
    (tmp_path / "states").write_text("not a folder")
    with small(disk_dir=str(tmp_path / "states")) as engine:
        panes(engine, words(engine, 100), 2, 4)
        rest(engine)
        assert engine._cache.archive.disk is not None
        engine._cache.archive.disk.flush()
        assert engine.stats().disk_bytes == 0
        assert greedy_ids(engine, words(engine, 50, 3))


# ---- sessions in files


@pytest.mark.parametrize("kind", ["attention", SLIDING, HYBRID])
def test_a_session_goes_into_a_file_and_back(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "session.bin"
    with opened(kind) as engine:
        prompt = words(engine, 300)
        generation = panes(engine, prompt, 2, 12)
        rest(engine)
        path = path_of(generation.branches[1])
        with pytest.raises(InvalidRequest, match="nothing of this text"):
            engine.save_session(file, [5, 6, 7])
        tokens, size = engine.save_session(file, path)
        assert (tokens, size) == (len(path), file.stat().st_size)  # the last one has no state yet
        evaluated = engine.resident(path)
        part = tmp_path / "part.bin"
        assert engine.save_session(part, path[:-5])[0] == len(path) - 5  # though more of the path is held
        assert engine.load_session(part) == path[:-5]
        expected = greedy_ids(engine, path)
    with opened(kind) as engine:
        assert engine.load_session(file) == path
        assert engine.resident(path) == evaluated >= len(path) - 1
        with decoded_rows(engine) as rows:
            assert greedy_ids(engine, path) == expected
        assert sum(rows) <= 1 + 6
        data = bytearray(file.read_bytes())
        for place in (0, 40, len(data) // 2, len(data) - 1):
            spoilt = bytes(data[:place]) + bytes([data[place] ^ 4]) + bytes(data[place + 1 :])
            for content in (spoilt, bytes(data[:place])):
                file.write_bytes(content)
                with pytest.raises(InvalidRequest, match="session"):
                    engine.load_session(file)


def test_who_began_before_others_evaluated_its_way_brings_it_back_when_they_have_left() -> None:
    """It is another's text word for word, and that one has left the cells meanwhile."""
    with closing(small()) as engine:
        cache, path = engine._cache, words(engine, 60)
        waits = Demand(Priority.NORMAL, SHARED)
        cache.tree.add_demand(waits, path)
        assert cache.allocate(waits, len(path) - 1)
        read(engine, path)
        rest(engine)
        spill(engine)
        assert engine.resident(path) == len(path) > cache.tree.tip[waits.seq].end
        cache.catch_up(waits)
        assert cache.tree.tip[waits.seq].end == len(path) - 1
        cache.tree.remove_demand(waits)
        cache.release(waits)


def test_who_lacks_the_room_to_bring_it_back_waits_for_it() -> None:
    """What others have evaluated of its prompt is in host memory, and the cells are taken."""
    with closing(small()) as engine:
        cache, path = engine._cache, words(engine, 60)
        waits = Demand(Priority.NORMAL, SHARED)
        cache.tree.add_demand(waits, path)
        assert cache.allocate(waits, len(path) - 1)
        read(engine, path)
        rest(engine)
        spill(engine)
        cache.allocate = lambda demand, known: False  # type: ignore[method-assign]
        assert not cache.catch_up(waits) and waits.seq == -1
        cache.tree.remove_demand(waits)
