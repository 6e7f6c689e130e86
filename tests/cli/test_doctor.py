"""What doctor finds: on this machine, and with planted faults, each with the command that mends it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from srbwriter import cli, paths
from srbwriter.cli import doctor
from srbwriter.cli.doctor import Finding
from srbwriter.demo import bundled_model
from tests.cli.stories import make

BUILD = {
    "binding": "0.3.36", "ggml": "0.25", "backends": ["CPU"],
    "features": "CPU : AVX = 1 | AVX2 = 1 | FMA = 1 | F16C = 1 | NEON = 1 | DOTPROD = 1",
}  # fmt: skip

Examine = Callable[..., list[Finding]]


def read(printed: str) -> list[Finding]:
    report = json.loads(printed)
    found = [Finding(**finding) for finding in report["findings"]]
    assert report["care"] == len(problems(found))
    return found


def problems(found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.state == "care"]


def only_problem(found: list[Finding]) -> Finding:
    [finding] = problems(found)
    return finding


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What llama.cpp says of itself, made up."""
    answer: dict[str, Any] = {"build": BUILD, "devices": []}
    monkeypatch.setattr(doctor, "ask_llama", lambda: answer)
    return answer


@pytest.fixture
def examine(
    native: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Examine:
    """The program in this process, on a llama.cpp and a machine made up."""
    monkeypatch.setattr(doctor, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(doctor, "AMD", tmp_path / "kfd")

    def run(*arguments: str) -> list[Finding]:
        code = cli.main(["doctor", "--json", *arguments])
        found = read(capsys.readouterr().out)
        assert code == bool(problems(found))
        return found

    return run


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_on_this_machine_something_is_said_and_no_file_is_made() -> None:
    home = Path.home()
    before = sorted(home.rglob("*"))
    command = [sys.executable, "-m", "srbwriter", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = read(done.stdout)
    assert (done.returncode, done.stderr) == (bool(problems(found)), "")
    said = "\n".join(finding.words for finding in found)
    assert "llama-cpp-python 0.3.36" in said
    assert re.search(r"in use is storyteller: it runs on .+, with a context of \d+ tokens", said)
    assert sorted(home.rglob("*")) == before


def test_the_report_for_people(examine: Examine, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("ok    srbwriter ") and printed.endswith("\nNothing needs care.\n")


def test_a_folder_that_cannot_be_written(examine: Examine) -> None:
    make()
    library = paths.library_dir()
    library.chmod(0o500)
    finding = only_problem(examine())
    assert "cannot be written" in finding.words and finding.cure == f"chmod u+rwx {library}; ls -ld {library}"
    assert library.stat().st_mode & 0o777 == 0o500, "nothing is changed"


def test_no_model(examine: Examine) -> None:
    gone = "/nowhere/gone.gguf"

    def cure(*flags: str) -> str:
        finding = only_problem(examine(*flags))
        assert f"{gone}: no such file" in finding.words
        return finding.cure

    assert cure("-m", gone) == "srbwriter models"
    put(paths.overlay_file(), f'[model]\npath = "{gone}"\n')
    assert cure() == "srbwriter models forget"


def test_a_model_whose_end_never_came(examine: Examine, tmp_path: Path) -> None:
    sound = bundled_model().read_bytes()
    (tmp_path / "half.gguf").write_bytes(sound[: len(sound) // 2])
    assert (
        "half.gguf: its weights are cut short"
        in only_problem(examine("-m", str(tmp_path / "half.gguf"))).words
    )


def test_a_model_that_the_free_memory_does_not_hold(
    examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srbwriter.models.fit.free_memory", lambda: 50_000_000)
    finding = only_problem(examine())
    assert "will be slow, or fail" in finding.words and finding.cure == "srbwriter models use storyteller"


def test_settings_that_cannot_be_used_do_not_keep_doctor_from_its_work(
    examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(paths.config_file(), "[generation]\nn = 'many'\n")
    monkeypatch.setenv("SRBWRITER_MODEL_THREADS", "x")
    cures = {finding.cure for finding in problems(examine())}
    assert cures == {f"${{EDITOR:-nano}} {paths.config_file()}", "unset SRBWRITER_MODEL_THREADS"}


def test_a_gpu_that_is_not_used(examine: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin/nvidia-smi"
    put(program, "#!/bin/sh\necho 'NVIDIA GeForce RTX 4070'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    finding = only_problem(examine())
    assert finding.words.startswith("NVIDIA GeForce RTX 4070 is there")
    command = r"\S+ -m pip install --force-reinstall --no-cache-dir --no-binary llama-cpp-python "
    cure = rf'CMAKE_ARGS="-DGGML_CUDA=on" {command}llama-cpp-python==0\.3\.36'
    assert re.fullmatch(cure, finding.cure)


def test_a_build_that_leaves_out_what_the_processor_has(examine: Examine, native: dict[str, Any]) -> None:
    put(doctor.CPUINFO, "flags : fpu avx avx2 fma\n")
    native["build"] = {**BUILD, "features": "CPU : AVX = 1"}
    assert "built without AVX2, FMA, which this processor has" in only_problem(examine()).words


def test_the_page_has_the_commands_for_every_kind_of_gpu() -> None:
    page = (Path(cli.__file__).parents[2] / "docs/cli.md").read_text("utf-8")
    for option in ("CUDA", "HIP", "METAL", "VULKAN"):
        command = doctor.reinstall(f"GGML_{option}").replace(f"{sys.executable} -m pip", "pip")
        assert command in page.splitlines()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (f"import os; os.kill(os.getpid(), {int(signal.SIGILL)})", "built for another processor"),
        ("raise SystemExit('libcuda.so.1 is missing')", "cannot be loaded: libcuda.so.1 is missing"),
        ("import time; time.sleep(60)", "does not answer within"),
    ],
)
def test_a_llama_cpp_that_crashes_or_hangs_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, words: str
) -> None:
    put(tmp_path / "python", f'#!/bin/sh\nexec {sys.executable} -c "{script}"\n')
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(doctor.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(doctor, "PROBE_SECONDS", 2)
    doctor.ask_llama.cache_clear()
    found = doctor.ask_llama()
    doctor.ask_llama.cache_clear()
    assert words in found["error"] and found["cure"]


def test_the_rest_is_examined_without_llama_cpp(monkeypatch: pytest.MonkeyPatch, examine: Examine) -> None:
    monkeypatch.setattr(doctor, "ask_llama", lambda: {"error": "it is gone", "cure": "pip install it"})
    found = examine()
    assert only_problem(found).cure == "pip install it"
    assert found[-1].words.startswith("in use is storyteller")
