"""Cells, host memory and files: what leaves the cells comes back by a copy, and is what it was."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srbwriter.engine.cache import IDLE_CELLS
from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import EngineOptions, InvalidRequest, Request, Stop
from tests.fakes.shared_model import load_engine

from .support import (
    GREEDY,
    Reference,
    decoded_rows,
    drive,
    finish,
    forcing,
    rest,
    seeded,
    short_model,
    spill,
)
from .test_memories import HYBRID, SLIDING, assert_right, evict_all, load, path_of, write

ONE = Stop(max_tokens=1, ignore_eog=True)
KINDS = ["attention", SLIDING, HYBRID]


def small(model: Path | None = None, **options: Any) -> Engine:
    chosen = {"n_ctx": 1024, "gpu_layers": 0, "seed": 1, "threads": 1, **options}
    engine = load_engine(model or short_model(), EngineOptions(**chosen), thread=False)
    engine._scheduler.queue.rest_seconds = 3600.0  # idle work is done by rest()
    return engine


def opened(kind: str, **options: Any) -> Engine:
    """An engine whose memory is of this kind."""
    return small(**options) if kind == "attention" else load(kind, **options)


def words(engine: Engine, count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(100, engine.info.n_vocab - 10, count).tolist()


def panes(engine: Engine, prompt: list[int], n: int, tokens: int, **more: Any) -> Generation:
    stop = Stop(max_tokens=tokens, ignore_eog=True)
    generation = engine.submit(Request(prompt, n=n, stop=stop, sampling=seeded(n), add_bos=False, **more))
    finish(engine, generation)
    return generation


def read(engine: Engine, prompt: list[int]) -> None:
    """Evaluate a prompt for a request that nobody holds afterwards."""
    finish(engine, engine.submit(Request(prompt, stop=ONE, sampling=GREEDY, add_bos=False)))
    gc.collect()


def whole(engine: Engine, branch: Branch) -> bool:
    path = path_of(branch)
    return engine.resident(path) == len(path)


# ---- what is on the screen stays


@pytest.mark.parametrize(("n", "tokens", "n_ctx"), [(12, 50, 800), (16, 32, 768)])
def test_every_pane_stays_whole_and_a_pick_evaluates_one_row(n: int, tokens: int, n_ctx: int) -> None:
    with small(n_ctx=n_ctx) as engine:
        generation = panes(engine, words(engine, 40), n, tokens)
        rest(engine)
        assert all(whole(engine, branch) for branch in generation.branches)
        for branch in generation.branches:
            with decoded_rows(engine) as rows:
                panes(engine, path_of(branch), 4, 1)
            assert sum(rows) <= 1 + 4  # its last token, and the first ones of the new branches
            rest(engine)
        assert all(whole(engine, branch) for branch in generation.branches)


def test_branches_that_gave_way_read_nothing_again() -> None:
    """More panes than there are cells: they take turns, by copies."""
    with small(n_ctx=256) as engine, decoded_rows(engine) as rows:
        generation = panes(engine, words(engine, 100), 8, 50)
        assert {len(b.ids) for b in generation.branches} == {50}
        turns = 4 * 8  # after a turn the last token is read again, for the logits after it
        assert sum(rows) <= 100 + 8 * 49 + turns
        assert engine.stats().restored_tokens > 0


# ---- what nobody runs costs nothing


def test_only_what_runs_is_in_cells_while_it_runs() -> None:
    with small(n_ctx=1024) as engine:
        for k in range(4):
            read(engine, words(engine, 200, k))
        generation = engine.submit(
            Request(words(engine, 100, 99), n=2, stop=Stop(max_tokens=20, ignore_eog=True))
        )
        drive(engine, lambda: len(generation.branches[0].ids) > 5)
        assert engine.stats().used_cells <= 100 + 2 * 20 + IDLE_CELLS
        finish(engine, generation)
        assert [engine.resident(words(engine, 200, k)) for k in range(4)] == [200] * 4


def test_a_long_prompt_is_read_beside_no_idle_cells() -> None:
    with small(n_ctx=4096) as engine:
        panes(engine, words(engine, 40), 32, 64)
        read = engine.stats().prompt_rows
        engine.submit(Request(words(engine, 200, 9), stop=ONE))
        while engine.stats().prompt_rows == read:
            engine.process()
        assert engine.stats().used_cells <= 200 + IDLE_CELLS


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


def test_memory_keeps_to_its_budget_and_what_is_on_the_screen_longest() -> None:
    with small() as probe:
        read(probe, words(probe, 100))
        rest(probe)
        of_100 = probe.stats().host_bytes
    with small(host_bytes=4 * of_100) as engine:
        shown = panes(engine, words(engine, 100), 1, 1)
        for k in range(1, 10):
            read(engine, words(engine, 100, k))
            rest(engine)
            assert engine.stats().host_bytes <= 4 * of_100
        spill(engine)
        assert engine.resident(shown.prompt_ids) == 100
        assert engine.resident(words(engine, 100, 9)) == 100
        assert engine.resident(words(engine, 100, 2)) < 100


def test_a_killed_branch_leaves_cells_and_memory() -> None:
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


# ---- files of stories


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "states"


def greedy_ids(engine: Engine, prompt: list[int]) -> tuple[int, ...]:
    generation = engine.submit(
        Request(prompt, stop=Stop(max_tokens=6, ignore_eog=True), sampling=GREEDY, add_bos=False)
    )
    finish(engine, generation)
    return generation.branches[0].ids


@pytest.mark.parametrize("kind", KINDS)
def test_a_story_that_is_opened_again_is_not_read_again(kind: str, folder: Path) -> None:
    with opened(kind, disk_dir=str(folder)) as engine:
        generation = panes(engine, words(engine, 300), 3, 20)
        rest(engine)
        deeper = panes(engine, path_of(generation.branches[1])[:-8], 2, 12)  # cuts what was stored
        paths = [path_of(b) for g in (generation, deeper) for b in g.branches]
        rest(engine)
        expected = [greedy_ids(engine, path) for path in paths]
    assert len(list(folder.rglob("*.kv"))) == 1
    assert not any(path.stat().st_mode & 0o077 for path in folder.rglob("*"))  # it can be read back
    with opened(kind, disk_dir=str(folder)) as engine:
        assert [engine.resident(path) for path in paths[:3]] >= [len(path) - 1 for path in paths[:3]]
        with decoded_rows(engine) as rows:
            assert greedy_ids(engine, paths[0]) == expected[0]
        assert sum(rows) <= 1 + 6
        assert [greedy_ids(engine, path) for path in paths] == expected
        engine.reset()
        assert engine.stats().disk_bytes == 0
        assert engine.resident(paths[0]) == 0


def test_a_damaged_file_is_read_again_by_the_model(folder: Path) -> None:
    with small(disk_dir=str(folder)) as engine:
        prompt = words(engine, 200)
        generation = panes(engine, prompt, 2, 30)
        rest(engine)
        expected = greedy_ids(engine, prompt)
        del generation
    (file,) = folder.rglob("*.kv")
    pristine = file.read_bytes()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        data = bytearray(pristine)
        if seed % 3 == 0:
            del data[int(rng.integers(0, len(data))) :]
        else:  # half of them in the head, where lengths and tokens stand
            data[int(rng.integers(0, len(data) if seed % 2 else 300))] ^= 1 << int(rng.integers(0, 8))
        for old in folder.rglob("*.kv"):
            old.unlink()
        file.write_bytes(data)
        with small(disk_dir=str(folder)) as engine:
            assert greedy_ids(engine, prompt) == expected, seed
            rest(engine)
        with small(disk_dir=str(folder)) as engine:
            assert engine.resident(prompt) == len(prompt), "it is whole again"


def test_the_folder_keeps_to_its_budget(folder: Path) -> None:
    held: list[int] = []
    with small(disk_dir=str(folder), disk_bytes=1 << 20) as engine:
        for k in range(6):
            shown = panes(engine, words(engine, 100, k), 1, 1)
            rest(engine)
            del shown
            engine._cache.files.flush()
            held.append(engine.stats().disk_bytes)
    assert 0 < max(held) <= 1 << 20
    assert sum(file.stat().st_size for file in folder.rglob("*.kv")) <= 1 << 20
    with small(disk_dir=str(folder.parent / "none"), disk_bytes=0) as engine:
        panes(engine, words(engine, 100), 1, 1)
        rest(engine)
    assert not (folder.parent / "none").exists()


# ---- sessions in files


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_goes_into_a_file_and_back(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "session.bin"
    with opened(kind) as engine:
        generation = panes(engine, words(engine, 300), 2, 12)
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
