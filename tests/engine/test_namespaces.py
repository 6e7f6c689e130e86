"""Text evaluated under one salt is nothing to another, in every tier."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import RemoteOptions
from srbwriter.engine.types import InvalidRequest, Request, Stop
from srbwriter.server import Loaded, ServerSettings, start_in_thread

from .support import GREEDY, finish, rest, small_engine
from .test_memories import HYBRID, SLIDING, evict_all
from .test_tiers import opened

PROMPT = "Once upon a time there was a fox. He was old, and he hid a bird from the rain. "
RULE = Stop(max_tokens=4, ignore_eog=True)
KINDS = ["attention", SLIDING, HYBRID]


def ask(engine: Engine, salt: str, prompt: Any = PROMPT, **more: Any) -> Generation:
    chosen: dict[str, Any] = {"stop": RULE, "sampling": GREEDY, **more}
    generation = engine.submit(Request(prompt, cache_salt=salt, **chosen))
    finish(engine, generation)
    return generation


def longer(generation: Generation) -> list[int]:
    """The tokens of a branch that has ended, and one more: so nothing has to be known of its last."""
    return [*generation.prompt_ids, *generation.branches[0].ids, 40]


@pytest.mark.parametrize("tier", ["cells", "memory"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_one_salt_evaluated_is_not_found_under_another(kind: str, tier: str) -> None:
    with opened(kind) as engine:
        seen: list[tuple[int, ...]] = []
        found: dict[str, list[int]] = {"a": [], "b": [], "": []}
        for salt in ("a", "b", "", "a", "b", ""):
            generation = ask(engine, salt)
            seen.append(generation.branches[0].ids)
            found[salt].append(generation.cached_tokens)
            if tier == "memory":
                rest(engine)
                evict_all(engine)
        assert len(set(seen)) == 1
        whole = len(generation.prompt_ids)
        for first, again in found.values():
            assert first == 0 and again >= whole - 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_disk_gives_each_salt_its_own(kind: str, tmp_path: Path) -> None:
    long = PROMPT * 3
    with opened(kind, disk_dir=str(tmp_path)) as engine:
        shown = ask(engine, "a", long)  # on the screen as long as it is held
        path = longer(shown)
        rest(engine)
        expected = ask(engine, "a", path).branches[0].ids
    with opened(kind, disk_dir=str(tmp_path)) as engine:
        assert ask(engine, "b", path).cached_tokens == 0
        generation = ask(engine, "a", path)
        assert generation.cached_tokens >= len(path) - 2
        assert generation.branches[0].ids == expected
        assert ask(engine, "", path).cached_tokens == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_is_taken_back_under_the_salt_that_asks_for_it(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "session.bin"
    with opened(kind) as engine:
        path = longer(ask(engine, "a"))
        with pytest.raises(InvalidRequest, match="nothing of this text"):
            engine.save_session(file, path, "b")
        tokens, _ = engine.save_session(file, path, "a")
        assert tokens >= len(path) - 2
    with opened(kind) as engine:
        engine.load_session(file, "b")
        assert ask(engine, "a", path).cached_tokens == 0
        assert ask(engine, "b", path).cached_tokens >= tokens - 2  # the last two were not evaluated


def test_another_srbwriter_is_told_of_the_salt() -> None:
    settings = ServerSettings(port=0, access_log=False)
    with small_engine(thread=True) as engine:
        handle = start_in_thread(Loaded(engine), settings)
        with closing(RemoteEngine.connect(RemoteOptions(handle.url))) as remote:
            found = list[int]()
            for salt in ("a", "b", "a"):
                before = engine.stats().reused_tokens
                remote.submit(Request(PROMPT, cache_salt=salt, stop=RULE)).wait(60)
                found.append(engine.stats().reused_tokens - before)
        handle.stop(20)
    assert found[:2] == [0, 0] and found[2] > 10
