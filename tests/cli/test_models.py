"""``srbwriter models``, as it is typed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from srbwriter import cli, launch, paths
from srbwriter.cli.exits import Exit
from srbwriter.cli.table import every_key
from srbwriter.config import load
from srbwriter.config.keys import RETIRED
from srbwriter.demo import bundled_model
from srbwriter.models import fit, read_recommended
from tests.cli.conftest import Run
from tests.fakes.hub import Hub, running
from tests.models.gguf_files import SHAPE, gguf, put

REPO = "maker/novelist-GGUF"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running() as started:
        monkeypatch.setenv("HF_ENDPOINT", started.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        started.repositories[REPO] = {
            "novelist-Q4_0.gguf": gguf(weights=5_000),
            "novelist-F16.gguf": gguf(weights=20_000),
        }
        yield started


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "models")


def model_in_use() -> Path:
    """What a program that is started now would write with."""
    return launch.model_path(load(every_key(), {}, {}))


def test_a_model_that_needs_more_than_is_free_is_tight(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "free_memory", lambda: 100 * 10**6)  # other programs have the rest
    _, out, err = run()
    assert out.splitlines()[1].split()[-2:] == ["tight", "bundled"]
    assert "of memory, 100 MB free" in err


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
    assert run("list")[1] == out


def test_the_list_for_programs(run: Any) -> None:
    put(paths.models_dir() / "bad.gguf", b"no model")
    bundled, bad = json.loads(run("--json")[1])
    assert (
        bundled["path"] == str(bundled_model()) and bundled["in_use"] and bundled["memory"] > bundled["size"]
    )
    assert (bad["problem"], bad["verdict"], bad["memory"]) == ("not a GGUF file", "unusable", None)
    assert json.loads(run("list", "--json")[1]) == [bundled, bad]


def test_a_name_cannot_talk_to_the_terminal(run: Any) -> None:
    put(paths.models_dir() / "a\x1b[31mb.gguf", gguf({**SHAPE}))
    assert "\x1b" not in run()[1]


def test_a_model_is_added_used_and_forgotten(run: Any, tmp_path: Path) -> None:
    file = put(tmp_path / "novelist-Q4_0.gguf")
    added = paths.models_dir() / file.name
    code, out, err = run("add", str(file))
    assert (code, out) == (Exit.OK, f"{added}\n") and "srbwriter models use novelist-Q4_0.gguf" in err
    assert model_in_use() == bundled_model()
    assert run("use", "novelist-Q4_0")[0] == Exit.OK
    assert model_in_use() == added
    assert "\n*  novelist-Q4_0" in run()[1]
    assert run("forget")[0] == Exit.OK
    assert model_in_use() == bundled_model()
    assert run("add", str(file), "--use")[0] == Exit.OK and model_in_use() == added
    assert run("use", "storyteller")[0] == Exit.OK and model_in_use() == bundled_model()


def test_any_file_can_be_used(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put(tmp_path / "novelist.gguf")
    monkeypatch.chdir(tmp_path)
    assert run("use", "novelist.gguf")[0] == Exit.OK
    monkeypatch.chdir("/")
    assert model_in_use() == file
    assert run("forget")[0] == run("use", str(tmp_path))[0] == Exit.OK  # the only one in a folder
    assert model_in_use() == file


def test_a_model_that_is_missing_is_not_in_use(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRBWRITER_MODEL", str(tmp_path / "gone.gguf"))
    code, out, err = run()
    assert code == Exit.OK and "gone.gguf: no such file, named by SRBWRITER_MODEL" in err
    assert "in use is" not in err and "\n*" not in out


def test_what_cannot_be_used_changes_nothing(run: Any, tmp_path: Path) -> None:
    bad = put(tmp_path / "bad.gguf", b"no model")
    folder = tmp_path / "folder.gguf"
    folder.mkdir()
    for line, words in {
        "use stoyteller": "no model is called stoyteller — did you mean storyteller?",
        f"use {bad}": "not a GGUF file",
        f"add {bad}": "not a GGUF file",
        f"add {tmp_path / 'none.gguf'}": "no such file",
        f"add {folder}": "this is a folder",
        f"use {folder}": "no model is in this folder",
        "pull novelist": "expected OWNER/REPO",
        "info unheard-of": "no model is called",
    }.items():
        code, _, err = run(*line.split())
        assert code == Exit.MODEL and words in err, line
    assert model_in_use() == bundled_model()
    put(paths.models_dir() / "bad.gguf", b"no model")
    code, out, err = run("info", "bad")
    assert (code, out) == (Exit.MODEL, "") and "not a GGUF file" in err


def test_what_overrules_a_choice_is_said(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put(tmp_path / "novelist.gguf")
    monkeypatch.setenv("SRBWRITER_MODEL", str(bundled_model()))
    assert f"but SRBWRITER_MODEL says {bundled_model()}, and that wins" in run("use", str(file))[2]
    monkeypatch.delenv("SRBWRITER_MODEL")
    paths.config_dir().mkdir(parents=True)
    paths.config_file().write_text('[model]\npath = "/my/own.gguf"\n')
    assert "model.path in your config.toml says /my/own.gguf, and that wins" in run("forget")[2]


def test_a_model_is_pulled_and_used(run: Any, hub: Hub) -> None:
    code, out, err = run("pull", REPO, "--use")
    file = paths.models_dir() / REPO / "novelist-Q4_0.gguf"
    assert (code, out) == (Exit.OK, f"{file}\n")
    assert "novelist-Q4_0.gguf: 5 KB, needs about" in err and "novelist-Q4_0.gguf: 100 %" in err
    assert model_in_use() == file


def test_what_could_be_pulled_is_listed(run: Any, hub: Hub) -> None:
    _, out, _ = run("pull", REPO, "--list")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [(row[0], row[1]) for row in rows] == [("*", "Q4_0"), ("F16", "20")]
    assert not paths.models_dir().exists()


def test_recommended_models_are_listed_with_the_command_for_each(run: Any) -> None:
    found = read_recommended().models
    first = found[0]
    put(first.path)
    code, out, err = run("recommended")
    lines = out.splitlines()
    assert code == Exit.OK and len(lines) == 1 + 2 * len(found)
    assert lines[0].split() == ["name", "kind", "for", "size", "memory", "here", "licence"]
    for model, line, command in zip(found, lines[1::2], lines[2::2], strict=True):
        assert line.startswith(model.name) and line.endswith(model.licence) and model.kind in line
        assert command == f"  srbwriter models pull {model.pull_name} --use"
    assert "fetched" in lines[1] and all(re.search("fits|tight|too large", line) for line in lines[3::2])
    assert "this machine has" in err and "eight panes" in err


def test_recommended_models_are_listed_for_programs(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from srbwriter import models

    monkeypatch.setattr(models, "memory_budget", lambda: 4 * 10**9)
    monkeypatch.setattr(models, "memory", lambda: 6 * 10**9)
    found = read_recommended()
    document = json.loads(run("recommended", "--json")[1])
    assert document["date"] == found.date.isoformat()
    assert document == json.loads(run("--json", "recommended")[1])
    rows = document["models"]
    assert [row["name"] for row in rows] == [model.name for model in found.models]
    assert [row["verdict"] for row in rows[:4]] == ["fits", "fits", "tight", "too large"]
    assert rows[0]["pages"] == found.models[0].pages and rows[0]["path"] is None


def test_pull_without_a_name_points_to_the_recommended_models(run: Any, hub: Hub) -> None:
    code, out, err = run("pull")
    assert (code, out) == (Exit.USAGE, "") and "`srbwriter models recommended` lists some" in err
    for name in ("novelist", "maker/none"):
        code, _, err = run("pull", name)
        assert code == Exit.MODEL and "`srbwriter models recommended`" in err


# ---- the flags


@pytest.fixture
def real_hub(hub: Hub) -> Hub:
    """A hub with a model that really writes."""
    hub.repositories[REPO] = {"storyteller-Q8_0.gguf": bundled_model().read_bytes()}
    return hub


WRITE = ("write", "Once", "-n", "1", "--max-tokens", "2", "--gpu-layers", "0", "--ctx-size", "256")


def write(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str, str]:
    code = cli.main([*WRITE, *flags])
    return (code, *capsys.readouterr())


def test_a_repository_named_by_a_flag_is_fetched_once(
    real_hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = write(capsys, "-hfr", REPO)
    assert code == Exit.OK and out.strip() and "storyteller-Q8_0.gguf: 100 %" in err
    real_hub.asked.clear()
    assert write(capsys, "--hf-repo", REPO, "-hff", "storyteller-Q8_0.gguf")[0] == Exit.OK
    assert not real_hub.asked


def test_an_address_given_by_a_flag_is_fetched(real_hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"{real_hub.url}/{REPO}/resolve/main/storyteller-Q8_0.gguf"
    assert write(capsys, "--model-url", url)[0] == Exit.OK
    assert (paths.models_dir() / "storyteller-Q8_0.gguf").exists()


def test_a_terminal_sees_a_bar(run: Any, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    _, _, err = run("pull", REPO)
    assert "novelist-Q4_0.gguf" in err and "KB of" in err and "100 %" not in err


def test_what_is_interrupted_says_how_to_go_on(run: Any, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from srbwriter.models import pull

    def interrupted(*arguments: Any) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(pull, "fetch", interrupted)
    code, _, err = run("pull", REPO)
    assert code == Exit.INTERRUPTED and "the same command continues from there" in err


# ---- info


def test_what_a_model_is_and_can_do(run: Any) -> None:
    code, out, err = run("info")
    assert (code, err) == (Exit.OK, "")
    assert re.search(r"^name +storyteller$", out, re.M) and re.search(r"^fills gaps +yes$", out, re.M)
    facts = json.loads(run("info", "storyteller", "--json")[1])
    assert (facts["kind"], facts["quantisation"]) == ("llama 8.5M Q8_0", "Q8_0")
    assert facts["fills_gaps"] and not facts["ranks_texts"] and facts["embeddings"] == "mean"


def test_retired_flags_are_taken_with_one_notice(run: Any) -> None:
    _, plain, _ = run("info")
    for row in [row for row in RETIRED if row.section == "model"]:
        flag = row.flags[0]
        code, out, err = run("info", flag, *["2"] * row.values)
        assert (code, out) == (Exit.OK, plain)
        assert err.count("\n") == 1 and f"{flag}: no effect any more" in err
