"""``srbwriter replay``: a story that an earlier process wrote, with the bundled model."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from srbwriter.cli.exits import Exit
from srbwriter.demo import bundled_model
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import EngineOptions, Stop
from srbwriter.session import Session
from srbwriter.session.replay import KEPT, written_nodes
from srbwriter.story import Story
from tests.session.conftest import ready, write_round

from .stories import damaged, make

MODEL = ("--gpu-layers", "0")


@pytest.fixture
def story(tmp_path: Path) -> Path:
    file = tmp_path / "fox.srbw"
    options = EngineOptions(n_ctx=512, gpu_layers=0, threads=1, flash_attn="on")
    made = Story.create(file)
    made.append("Once upon a time there was a fox.")
    loader = EngineLoader(bundled_model(), options)
    stop = Stop(max_tokens=12, ignore_eog=True)
    with closing(Session(made, loader, n=3, options=options, stop=stop)) as session:
        ready(session)
        write_round(session)
    return file


def test_branches_of_an_earlier_run_come_out_the_same(run: Any, story: Path) -> None:
    before = story.read_bytes()
    code, out, _ = run("replay", str(story), *MODEL)
    assert code == Exit.OK and out.count("  same ") == 3 and "the same text here for 3, another for 0" in out
    assert story.read_bytes() == before
    code, out, _ = run("replay", str(story), "--json", *MODEL, "--threads", "2")
    document = json.loads(out)
    assert [node["tokens"] for node in document["nodes"]] == [12] * 3
    assert all("threads: 1, here 2" in node["elsewhere"] for node in document["nodes"])


def test_a_branch_that_differs_is_an_exit_code_of_its_own(run: Any, story: Path) -> None:
    with Story.open(story) as opened:
        node = next(written_nodes(opened))
        first = opened.node(node).spans[0].ids[0]
        opened.put_meta(node, KEPT, {**opened.node(node).meta[KEPT], "barred": [first], "together": 0})
    code, out, _ = run("replay", str(story), *MODEL)
    assert code == Exit.ERROR and "from token 1 on" in out and "same text here for 2, another for 1" in out


def test_stories_without_records_and_what_is_no_story(run: Any, tmp_path: Path) -> None:
    code, out, _ = run("replay", str(make()), *MODEL)
    assert code == Exit.OK and "of 2 it cannot be said" in out and "its tokens are not known" in out
    for arguments, expected, words in (
        (("nothing",), Exit.USAGE, "no story is called nothing"),
        ((str(damaged()),), Exit.DAMAGED, "is damaged"),
        ((str(make()), "--connect", "http://localhost:1"), Exit.USAGE, "a seed does not bind"),
        ((str(make()), "-m", str(tmp_path / "none.gguf")), Exit.MODEL, "no such file"),
    ):
        code, _, err = run("replay", *arguments)
        assert code == expected and words in err
