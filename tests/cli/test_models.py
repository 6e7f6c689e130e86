"""``srbwriter models``, as it is typed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from srbwriter import cli, launch, paths
from srbwriter.cli.exits import Exit
from srbwriter.cli.table import every_key
from srbwriter.config import load
from srbwriter.demo import bundled_model
from srbwriter.models.fit import Gpu
from srbwriter.models.recommended import Machine, read_recommended
from tests.cli.conftest import Run
from tests.fakes.hub import Hub, running
from tests.models.gguf_files import gguf, put

REPO = "maker/novelist-GGUF"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running() as started:
        monkeypatch.setenv("HF_ENDPOINT", started.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        started.repositories[REPO] = {
            "novelist-Q4_K_M.gguf": gguf(weights=5_000),
            "novelist-F16.gguf": gguf(weights=20_000),
        }
        yield started


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "models")


def model_in_use() -> Path:
    """What a program that is started now would write with."""
    return launch.model_path(load(every_key(), {}, {}))


def test_the_list_shows_size_context_and_memory(run: Any) -> None:
    put(paths.models_dir() / "novelist.gguf")
    put(paths.models_dir() / "bad.gguf", b"no model")
    code, out, err = run()
    lines = [line.split() for line in out.splitlines()]
    assert code == Exit.OK
    assert lines[0] == ["name", "size", "context", "memory", "here", "from"]
    assert lines[1][:2] == ["*", "storyteller"] and lines[1][-2:] == ["fits", "bundled"]
    assert ["novelist", str(len(gguf())), "B", "4096"] == lines[3][:4]
    assert lines[2][0] == "bad" and "unusable" in lines[2]
    assert "bad.gguf: not a GGUF file" in err and "of memory" in err


def test_the_list_for_programs(run: Any) -> None:
    put(paths.models_dir() / "bad.gguf", b"no model")
    bundled, bad = json.loads(run("--json")[1])
    assert (
        bundled["path"] == str(bundled_model()) and bundled["in_use"] and bundled["memory"] > bundled["size"]
    )
    assert (bad["problem"], bad["verdict"], bad["memory"]) == ("not a GGUF file", "unusable", None)


def test_a_model_is_used_and_forgotten(run: Any) -> None:
    added = put(paths.models_dir() / "novelist-Q4_0.gguf")
    assert model_in_use() == bundled_model()
    assert run("use", "novelist-Q4_0")[0] == Exit.OK
    assert model_in_use() == added
    assert "\n*  novelist-Q4_0" in run()[1]
    assert run("forget")[0] == Exit.OK
    assert model_in_use() == bundled_model()
    run("use", "novelist-Q4_0")
    assert run("use", "storyteller")[0] == Exit.OK and model_in_use() == bundled_model()


def test_any_file_can_be_used(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put(tmp_path / "novelist.gguf")
    monkeypatch.chdir(tmp_path)
    assert run("use", "novelist.gguf")[0] == Exit.OK
    monkeypatch.chdir("/")
    assert model_in_use() == file


def test_what_cannot_be_used_changes_nothing(run: Any, tmp_path: Path) -> None:
    bad = put(tmp_path / "bad.gguf", b"no model")
    folder = tmp_path / "folder.gguf"
    folder.mkdir()
    for line, words in {
        "use stoyteller": "no model is called stoyteller — `srbwriter models` lists",
        f"use {bad}": "not a GGUF file",
        f"use {folder}": "no model is called",
        "pull novelist": "expected OWNER/REPO",
    }.items():
        code, _, err = run(*line.split())
        assert code == Exit.MODEL and words in err, line
    assert model_in_use() == bundled_model()


def test_a_model_is_pulled_and_used(run: Any, hub: Hub) -> None:
    code, out, err = run("pull", REPO, "--use")
    file = paths.models_dir() / REPO / "novelist-Q4_K_M.gguf"
    assert (code, out) == (Exit.OK, f"{file}\n")
    assert "novelist-Q4_K_M.gguf: 100 %" in err
    assert model_in_use() == file


# ---- recommended, on machines of all kinds

CARD = Gpu("RTX 4090", free=24 * 10**9)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put the program on a machine with so many GB of memory."""

    def put_on(gigabytes: int, *gpus: Gpu, cores: int = 2) -> None:
        memory = gigabytes * 10**9
        machine = Machine(memory, gpus, cores)
        monkeypatch.setattr(launch, "this_machine", lambda settings: machine)

    return put_on


def test_one_model_is_recommended_and_the_others_follow(run: Any, on: Callable[..., None]) -> None:
    on(16)
    code, out, err = run("recommended")
    lines = out.splitlines()
    assert code == Exit.OK
    assert lines[0] == "For this machine: Qwen3 4B Base, 2.5 GB to fetch."
    assert (
        lines[1] == "  srbwriter models pull mradermacher/Qwen3-4B-Base-GGUF/Qwen3-4B-Base.Q4_K_M.gguf --use"
    )
    assert [line.partition("): ")[0] for line in lines[3::3]] == [
        "SmolLM3 3B (fits", "Qwen3 1.7B Base (fits", "Mistral Nemo 12B Instruct (slow",
        "Mistral Nemo 12B Base (slow", "Qwen3 30B-A3B Base (too large",
    ]  # fmt: skip
    assert all(line.startswith("  srbwriter models pull ") for line in lines[4::3])
    assert "slow is below three words" in err and "of memory, no GPU is used; models" in err


def test_a_model_that_is_here_is_not_to_be_fetched(run: Any, on: Callable[..., None]) -> None:
    on(16)
    model = next(model for model in read_recommended().models if model.name == "Qwen3 4B Base")
    put(model.path)
    assert run("recommended")[1].startswith("For this machine: Qwen3 4B Base, fetched.")


def test_with_more_cores_larger_models_are_fast_enough(run: Any, on: Callable[..., None]) -> None:
    on(32, cores=8)
    assert run("recommended")[1].startswith("For this machine: Qwen3 30B-A3B Base")
    on(64, CARD, cores=2)
    assert "Mistral Small 24B Base" in run("recommended")[1]


# ---- the flag


def test_an_address_given_by_a_flag_is_fetched_once(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.repositories[REPO] = {"storyteller-Q8_0.gguf": bundled_model().read_bytes()}
    url = f"{hub.url}/{REPO}/resolve/main/storyteller-Q8_0.gguf"
    line = ("write", "Once", "-n", "1", "--max-tokens", "2", "--gpu-layers", "0", "--ctx-size", "256")
    for fetched in (1, 0):
        assert cli.main([*line, "--model-url", url]) == Exit.OK
        assert capsys.readouterr().out.strip() and len(hub.files_asked()) == fetched
        hub.asked.clear()
