"""What doctor finds: on this machine, and with planted faults, each with the command that mends it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from srbwriter import cli, paths
from srbwriter.cli import doctor
from srbwriter.cli.doctor import Finding
from srbwriter.demo import bundled_model
from srbwriter.engine.devices import Build, Device
from srbwriter.story import Story
from srbwriter.story.backup import snapshot
from tests.cli.stories import damaged, make
from tests.fakes import disk

PROGRAM = [sys.executable, "-m", "srbwriter", "doctor"]


class Report:
    """What one run printed as JSON."""

    def __init__(self, code: int, printed: str) -> None:
        self.code = code
        document = json.loads(printed)
        self.care: int = document["care"]
        self.checks = {
            check["name"]: [Finding(**finding) for finding in check["findings"]]
            for check in document["checks"]
        }

    @property
    def problems(self) -> list[tuple[str, Finding]]:
        return [(name, one) for name, found in self.checks.items() for one in found if one.state == "care"]

    def only_problem(self, name: str) -> Finding:
        """The one finding that needs care, which is of that check."""
        [(check, finding)] = self.problems
        assert (check, self.code, self.care) == (name, 1, 1)
        return finding


def run_program(**environment: str) -> Report:
    """Run the real program; nothing that it needs to know is faked."""
    done = subprocess.run(
        [*PROGRAM, "--json"], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    return Report(done.returncode, done.stdout)


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """What llama.cpp says of itself, made up."""
    features = "CPU : AVX = 1 | AVX2 = 1 | FMA = 1 | F16C = 1 | NEON = 1 | DOTPROD = 1"
    machine = SimpleNamespace(
        build=Build("0.3.36", "0.25", ("CPU",), features), devices=[], amx_broken=False
    )  # fmt: skip
    monkeypatch.setattr(
        doctor, "ask_llama",
        lambda: {
            "build": asdict(machine.build), "devices": list(map(asdict, machine.devices)),
            "amx_broken": machine.amx_broken,
        },
    )  # fmt: skip
    yield machine


@pytest.fixture
def examine(native: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> Any:
    """The program in this process, on a llama.cpp that is made up."""

    def run(*arguments: str) -> Report:
        code = cli.main(["doctor", "--json", *arguments])
        return Report(code, capsys.readouterr().out)

    return run


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up place of ``proc``, ``sys`` and ``dev``."""
    monkeypatch.setattr(doctor, "ROOT", tmp_path / "root")
    return tmp_path / "root"


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


# ---- this machine


def test_on_this_machine_every_check_says_something_and_no_file_is_made() -> None:
    home = Path.home()
    before = sorted(home.rglob("*"))
    report = run_program()
    assert list(report.checks) == [name for name, _, _ in doctor.CHECKS]
    assert all(report.checks.values())
    assert report.code == (1 if report.care else 0)
    assert "llama-cpp-python 0.3.36" in report.checks["llama.cpp"][0].words
    [in_use] = [found for found in report.checks["model"] if found.words.startswith("in use is storyteller")]
    assert re.search(r"runs on .+, with a context of 2048 tokens", in_use.words)
    assert sorted(home.rglob("*")) == before


def test_the_report_for_people_has_a_line_for_each_finding(
    native: SimpleNamespace, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.main(["doctor"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert printed.endswith("\nNothing needs care.\n")
    assert "\nthreads\n  ok    " in printed and "in use is storyteller: it runs on CPU" in printed


# ---- planted faults


def test_no_space_is_told_with_what_frees_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, examine: Any, root: Path
) -> None:
    if disk.can_mount(tmp_path / "try"):
        small = disk.SmallDisk(tmp_path / "small")
        request.addfinalizer(small.unmount)
        small.fill()
        monkeypatch.setenv("XDG_DATA_HOME", str(small.folder))
    else:
        tight = SimpleNamespace(free=0, total=disk.SIZE, used=disk.SIZE)
        monkeypatch.setattr("shutil.disk_usage", lambda folder: tight)
    finding = examine().only_problem("space")
    assert "too little to save safely" in finding.words
    assert re.fullmatch(r"du -xhd 1 \S+ \| sort -h \| tail", finding.cure)


def test_wrong_permissions(examine: Any, root: Path) -> None:
    make()
    library = "~/.local/share/srbwriter/library"
    for mode, words, cure in (
        (0o500, "cannot be written by its owner", f"chmod u+rwx {library}"),
        (0o755, "other users can read", f"chmod 700 {library}"),
    ):
        paths.library_dir().chmod(mode)
        finding = examine().only_problem("folders")
        assert words in finding.words and finding.cure == cure
        assert paths.library_dir().stat().st_mode & 0o777 == mode, "nothing is changed"


@pytest.mark.parametrize("copied", [False, True])
def test_a_damaged_story_is_opened_or_its_copy_restored(examine: Any, root: Path, copied: bool) -> None:
    if copied:
        file = make()
        with Story.open(file) as story:
            snapshot(file, story.backup_folder(paths.backup_dir()), "before")
        with file.open("r+b") as data:
            data.seek(8192)
            data.write(b"\xff" * 4096)
    else:
        file = damaged()
    paths.tighten_folders()
    finding = examine().only_problem("stories")
    assert f"{doctor.shown(file)} is damaged: " in finding.words
    assert finding.cure == f"srbwriter {'backup restore' if copied else 'open'} {doctor.shown(file)}"


def test_no_model(examine: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = "/nowhere/gone.gguf"

    def cure(*flags: str) -> str:
        finding = examine(*flags).only_problem("model")
        assert f"{gone}: no such file" in finding.words
        return finding.cure

    assert cure("-m", gone) == "srbwriter models"
    with monkeypatch.context() as patch:
        patch.setenv("SRBWRITER_MODEL", gone)
        assert cure() == "unset SRBWRITER_MODEL"
    for file, expected in (
        (paths.config_file(), "${EDITOR:-nano} ~/.config/srbwriter/config.toml"),
        (paths.overlay_file(), "srbwriter models forget"),
    ):
        put(file, f'[model]\npath = "{gone}"\n')
        paths.tighten_folders()
        assert cure() == expected
        file.unlink()
    put(paths.models_dir() / "novelist.gguf", "no model")
    paths.tighten_folders()
    assert examine().only_problem("models").cure == "rm ~/.local/share/srbwriter/models/novelist.gguf"


def test_a_model_that_the_free_memory_does_not_hold(
    examine: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srbwriter.models.fit.free_memory", lambda: 50_000_000)
    finding = next(one for name, one in examine().problems if name == "model")
    assert "will be slow, or fail" in finding.words and finding.cure == "srbwriter models use storyteller"


def test_settings_that_cannot_be_used_do_not_keep_doctor_from_its_work(
    examine: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(paths.config_file(), "[generation]\nn = 'many'\n")
    monkeypatch.setenv("SRBWRITER_MODEL_THREADS", "x")
    report = examine("-m", str(bundled_model()))
    assert "in use is storyteller" in report.checks["model"][0].words
    assert {(name, finding.cure) for name, finding in report.problems} == {
        ("settings", "${EDITOR:-nano} ~/.config/srbwriter/config.toml"),
        ("settings", "unset SRBWRITER_MODEL_THREADS"),
    }


# ---- GPUs that llama.cpp was not built for


def fake_program(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder / name, f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


VULKANINFO = """cat <<END
GPU0:
	deviceType         = PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU
	deviceName         = Intel(R) Arc(tm) Graphics
GPU1:
	deviceType         = PHYSICAL_DEVICE_TYPE_CPU
	deviceName         = llvmpipe
END"""


@pytest.mark.parametrize("kind", ["nvidia-smi", "driver", "kfd", "vulkaninfo"])
def test_a_gpu_that_is_not_used(
    examine: Any, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    name, option = "NVIDIA GeForce RTX 4070", "CUDA"
    match kind:
        case "nvidia-smi":
            fake_program(tmp_path / "bin", kind, f"echo '{name}'", monkeypatch)
        case "driver":
            put(root / "proc/driver/nvidia/gpus/0000:01:00.0/information", f"Model: \t\t {name}\nIRQ: 1\n")
        case "kfd":
            name, option = "gfx1100", "HIP"
            monkeypatch.setattr(doctor, "_output", lambda *command: "")
            put(root / "dev/kfd", "")
            nodes = root / "sys/class/kfd/kfd/topology/nodes"
            put(nodes / "0/properties", "simd_count 0\n")
            put(nodes / "1/properties", "cpu_cores 0\nsimd_count 192\n")
            put(nodes / "1/name", f"{name}\n")
        case _:
            name, option = "Intel(R) Arc(tm) Graphics", "VULKAN"
            fake_program(tmp_path / "bin", kind, VULKANINFO, monkeypatch)
    finding = examine().only_problem("GPUs")
    assert finding.words.startswith(f"{name} is there")
    command = r"(pip|\S+ -m pip) install --force-reinstall --no-cache-dir --no-binary llama-cpp-python "
    cure = rf'CMAKE_ARGS="-DGGML_{option}=on" {command}llama-cpp-python==0\.3\.36'
    assert re.fullmatch(cure, finding.cure)


def test_the_page_has_the_commands_for_every_kind_of_gpu() -> None:
    page = (Path(cli.__file__).parents[2] / "docs/cli.md").read_text("utf-8")
    for option in ("CUDA", "HIP", "METAL", "VULKAN"):
        command = doctor.reinstall(f"GGML_{option}").replace(doctor.pip(), "pip")
        assert command in page.splitlines()


def test_a_gpu_that_is_used_is_told_with_its_free_memory(
    examine: Any, native: SimpleNamespace, root: Path
) -> None:
    native.devices = [Device("CUDA0", "NVIDIA GeForce RTX 4070", "gpu", 11_000_000_000, 12_000_000_000)]
    report = examine()
    assert report.checks["GPUs"] == [
        Finding("ok", "NVIDIA GeForce RTX 4070: 11.0 GB of 12.0 GB free, used through CUDA0")
    ]
    assert "it runs on NVIDIA GeForce RTX 4070, 9 of 9 layers" in report.checks["model"][0].words


# ---- llama.cpp that does not answer


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
    found = doctor.ask_llama()
    assert isinstance(found, doctor.NoNative) and words in str(found) and found.cure


def test_checks_go_on_without_llama_cpp(monkeypatch: pytest.MonkeyPatch, examine: Any, root: Path) -> None:
    monkeypatch.setattr(doctor, "ask_llama", lambda: doctor.NoNative("it is gone", "pip install it"))
    report = examine()
    assert {name for name, _ in report.problems} == {"llama.cpp", "processor", "GPUs"}
    assert report.checks["model"][0].words.startswith("in use is storyteller")


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch, examine: Any) -> None:
    def fail(_: object) -> list[Finding]:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(doctor, "CHECKS", (("one", fail, "{}"), ("two", lambda _: [], "{}")))
    report = examine()
    assert report.code == 1
    assert report.checks["one"][0].words == "this check failed: ZeroDivisionError: by nothing"
    assert report.checks["two"] == []
