"""``srbwriter doctor``: one list of checks of this machine and the program's files. Nothing is changed."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

from srbwriter import launch, paths
from srbwriter.cli.columns import document, plain
from srbwriter.cli.exits import Exit
from srbwriter.cli.flags import add_keys
from srbwriter.config import ConfigError, Settings, Table, keys
from srbwriter.demo import bundled_model
from srbwriter.engine.cores import affinity, count_cores, tightest_quota
from srbwriter.engine.devices import Device, device_words, gpus
from srbwriter.engine.types import ModelError
from srbwriter.models import ModelsError, free_memory, local_models, memory, memory_budget, size_words
from srbwriter.version import __version__

ROOT = Path("/")
"""The folder that contains ``proc``, ``sys`` and ``dev``."""

PROBE_SECONDS, PROGRAM_SECONDS, STORIES_SECONDS = 60, 15, 60
LEAST_MEMORY, LEAST_SPACE = 512_000_000, 100_000_000  # bytes that should be free
LLAMA = "llama-cpp-python"

_MARKS = {"ok": "ok  ", "note": "note", "care": "CARE"}


class Finding(NamedTuple):
    """One sentence with a state: ok, note (worth knowing), or care.

    ``cure`` is a command; a check may give only what its cure in ``CHECKS`` is for.
    """

    state: Literal["ok", "note", "care"]
    words: str
    cure: str = ""


class NoNative(Exception):
    """llama.cpp does not respond; ``cure`` is a command that fixes it."""

    def __init__(self, problem: str, cure: str) -> None:
        self.cure = cure
        super().__init__(problem)


class Examination:
    """Data for the checks: the settings, and what llama.cpp says of itself, asked once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def _answer(self) -> dict[str, Any] | NoNative:
        return ask_llama()

    @property
    def native(self) -> dict[str, Any]:
        """The answer of ``srbwriter.engine.probe``. Raises NoNative."""
        if isinstance(self._answer, NoNative):
            raise self._answer
        return self._answer

    @property
    def devices(self) -> list[Device]:
        """The devices of llama.cpp. Raises NoNative."""
        return [Device(**row) for row in self.native["devices"]]


def doctor_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_keys(parser, table, ("model",))


def run_doctor(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Go over this machine and the program's files: what is well, what is not, and the command that mends it.
    Nothing is changed. The exit code is 1 if something needs care.

      srbwriter doctor
      srbwriter doctor --json
      srbwriter doctor -m novelist
    """
    examination = Examination(settings)
    report: list[dict[str, Any]] = []
    care = 0
    for name, check, cure in CHECKS:
        found = list(examine(check, cure, examination))
        care += sum(finding.state == "care" for finding in found)
        report.append({"name": name, "findings": [finding._asdict() for finding in found]})
        if not arguments.json:
            print(name)
            for finding in found:
                print(f"  {_MARKS[finding.state]}  {plain(finding.words)}")
                if finding.cure:
                    print(f"          {plain(finding.cure)}", flush=True)
    if arguments.json:
        print(document({"version": __version__, "care": care, "checks": report}))
    else:
        things = "1 thing needs" if care == 1 else f"{care} things need"
        print(f"\n{things} care." if care else "\nNothing needs care.")
    return Exit.ERROR if care else Exit.OK


def examine(check: Check, cure: str, examination: Examination) -> Iterator[Finding]:
    """Run one check; one that fails is a finding too, and does not stop the others."""
    try:
        for found in check(examination):
            yield found if found.state == "ok" else found._replace(cure=cure.format(found.cure))
    except NoNative as error:
        yield Finding("care", str(error), error.cure)
    except Exception as error:
        yield Finding("care", f"this check failed: {type(error).__name__}: {error}")


# ---- llama.cpp and the machine


def ask_llama() -> dict[str, Any] | NoNative:
    """Ask llama.cpp about itself in another process, which a driver may hang or a wrong build may end."""
    command = [sys.executable, "-m", "srbwriter.engine.probe"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_SECONDS, text=True,
            errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        problem = f"llama.cpp does not answer within {PROBE_SECONDS} seconds; the driver of a GPU may hang"
        return NoNative(problem, "sudo reboot")
    if done.returncode == -signal.SIGILL:
        return NoNative("llama.cpp was built for another processor than this one", reinstall())
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
        return NoNative(f"llama.cpp cannot be loaded: {last}", reinstall())
    return NoNative(answer["error"], reinstall()) if "error" in answer else answer


def pip() -> str:
    """Return the command for pip of the running Python."""
    found = shutil.which("pip")
    if found and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"


def reinstall(option: str = "") -> str:
    """Return the command that builds llama.cpp again on this machine, with an option of CMake."""
    named = [line.partition("==")[2] for line in requirements() if line.startswith(f"{LLAMA}==")]
    pinned = named[0].strip() if named else version(LLAMA)
    command = f"{pip()} install --force-reinstall --no-cache-dir --no-binary {LLAMA} {LLAMA}=={pinned}"
    return f'CMAKE_ARGS="-D{option}=on" {command}' if option else command


def requirements() -> list[str]:
    """Return the requirements of this program, such as ``textual==8.2.8``; empty if unknown."""
    try:
        lines = [line for line in requires("srbwriter") or [] if "extra ==" not in line]
    except PackageNotFoundError:
        return []
    return [line.partition(";")[0].strip() for line in lines]


def check_versions(_: Examination) -> Iterator[Finding]:
    yield Finding("ok", f"srbwriter {__version__}, Python {platform.python_version()}, {platform.platform()}")
    for line in requirements():
        name, wanted = re.split(r"[^\w.-]", line, maxsplit=1)[0], line.partition("==")[2]
        try:
            installed = version(name)
        except PackageNotFoundError:
            yield Finding("care", f"the package {name} is missing", shlex.quote(line))
            continue
        if wanted and installed != wanted:
            words = f"{name} is {installed}; srbwriter is written for {wanted}"
            yield Finding("care", words, shlex.quote(line))


def check_llama(examination: Examination) -> Iterator[Finding]:
    build = examination.native["build"]
    backends = ", ".join(build["backends"]) or "none"
    yield Finding("ok", f"{LLAMA} {build['binding']}, ggml {build['ggml']}, backends: {backends}")
    if examination.native["amx_broken"]:
        words = (
            "the compiler that built llama.cpp has a fault in AMX code, so AMX is not used; built by clang"
        )
        yield Finding(
            "note", f"{words} or GCC 14, it reads prompts faster", f"CC=clang CXX=clang++ {reinstall()}"
        )


_NEEDED = {"avx": "AVX", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "asimddp": "DOTPROD"}
"""Processor features without which llama.cpp is several times slower: name in Linux, name in llama.cpp."""


def check_processor(examination: Examination) -> Iterator[Finding]:
    rows = dict[str, str]()
    for line in _read(ROOT / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        rows.setdefault(name.strip().lower(), value.strip())
    name = rows.get("model name") or platform.processor() or platform.machine()
    flags = (rows.get("flags") or rows.get("features") or "").split()
    used = set(re.findall(r"(\w+) = 1", examination.native["build"]["features"]))
    yield Finding("ok", f"{name}; llama.cpp uses {', '.join(sorted(used)) or 'no special features'}")
    if missing := [ours for theirs, ours in _NEEDED.items() if theirs in flags and ours not in used]:
        words = f"llama.cpp was built without {', '.join(missing)}, which this processor has: it is slow"
        yield Finding("care", words)


def check_gpus(examination: Examination) -> Iterator[Finding]:
    used = gpus(examination.devices)
    for device in used:
        words = f"{device.product}: {size_words(device.free)} of {size_words(device.total)} free"
        yield Finding("ok", f"{words}, used through {device.name}")
    if used and examination.settings[keys.GPU_LAYERS] == 0:
        place = examination.settings.place(keys.GPU_LAYERS)
        yield Finding("ok", f"no layer runs on it, because {place} says so; without that it is fitted")
    if any(device.kind == "gpu" for device in used):
        return
    # With one in the processor in use, only a card of its own is worth another build.
    seen = [gpu for gpu in seen_gpus() if not used or gpu[1] in ("CUDA", "HIP")]
    for name, option in seen:
        words = f"{name} is there, and llama.cpp was built without {option}: it is not used"
        yield Finding("care", words, reinstall(f"GGML_{option}"))
    if not seen and not used:
        yield Finding("ok", "the system sees none; the model runs on the processor")


def seen_gpus() -> list[tuple[str, str]]:
    """Return the GPUs that the system sees, each with what llama.cpp must be built with."""
    nvidia = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").split("\n")
    if not any(nvidia):
        files = sorted((ROOT / "proc/driver/nvidia/gpus").glob("*/information"))
        nvidia = [name for file in files for name in re.findall(r"(?m)^Model:\s*(.+)$", _read(file))]
    found = [(name.strip(), "CUDA") for name in nvidia if name.strip()]
    if (ROOT / "dev/kfd").exists():
        nodes = sorted((ROOT / "sys/class/kfd/kfd/topology/nodes").glob("*/properties"))
        amd = [file for file in nodes if re.search(r"(?m)^simd_count [1-9]", _read(file))]
        found += [(_read(file.with_name("name")) or "a GPU of AMD's", "HIP") for file in amd]
    if sys.platform == "darwin" and platform.machine() == "arm64":
        found.append(("the GPU of Apple's chip", "METAL"))
    if not found:
        blocks = re.split(r"(?m)^GPU\d+:", _output("vulkaninfo", "--summary"))[1:]
        real = [block for block in blocks if "PHYSICAL_DEVICE_TYPE_CPU" not in block]
        names = [name for block in real for name in re.findall(r"deviceName\s*=\s*(.+)", block)]
        found = [(name.strip(), "VULKAN") for name in names]
    return found


def check_memory(_: Examination) -> Iterator[Finding]:
    free = free_memory()
    words = f"{size_words(free)} of {size_words(memory())} free"
    if free < LEAST_MEMORY:
        yield Finding("care", f"{words}: too little for a model; end what takes most of it")
    else:
        yield Finding("ok", words)


def check_threads(_: Examination) -> Iterator[Finding]:
    allowed, there = affinity(), os.cpu_count() or 1
    quota, _group = tightest_quota(ROOT)
    mask = f"the affinity mask has {len(allowed)} of {there} processors" if allowed else f"{there} processors"
    limit = "no quota" if quota is None else f"a quota of {quota:g} cores"
    yield Finding("ok", f"threads for writing: {count_cores(root=ROOT)}; {mask}, {limit}")
    if quota is not None and quota < 1:
        words = (
            f"a quota of {quota:g} of a core makes every step wait for its next share of time, and the text"
        )
        yield Finding("care", f"{words} comes in jerks; give more where the quota was set")


# ---- files


def check_settings(examination: Examination) -> Iterator[Finding]:
    file = paths.config_file()
    for words in examination.settings.warnings:
        cure = f"${{EDITOR:-nano}} {shown(file)}"
        if (found := re.search(r"\bSRBWRITER_[A-Z_]+", words)) and "=" not in words[: found.start()]:
            cure = f"unset {found.group()}"
        elif words.startswith(str(paths.overlay_file())):
            cure = f"rm {shown(paths.overlay_file())}"
        yield Finding("care", words, cure)
    if not examination.settings.warnings:
        missing = "" if file.exists() else " does not exist, so the defaults hold"
        yield Finding("ok", f"{shown(file)}{missing}")


def _folders() -> dict[str, Path]:
    """Return the folders that the program writes to, by their content."""
    return {
        "stories": paths.library_dir(), "models": paths.models_dir(),
        "copies, logs and locks": paths.state_dir(), "cached model states": paths.cache_dir(),
    }  # fmt: skip


def check_space(_: Examination) -> Iterator[Finding]:
    disks = dict[int, tuple[Path, list[str]]]()
    for what, folder in _folders().items():
        nearest = _nearest(folder)
        disks.setdefault(nearest.stat().st_dev, (nearest, []))[1].append(what)
    for folder, what in disks.values():
        usage = shutil.disk_usage(folder)
        words = (
            f"{shown(folder)} ({', '.join(what)}): {size_words(usage.free)} of {size_words(usage.total)} free"
        )
        if usage.free < LEAST_SPACE:
            yield Finding("care", f"{words}: too little to save safely", shown(folder))
        else:
            yield Finding("ok", words)


def check_folders(_: Examination) -> Iterator[Finding]:
    """Whether the program can write to its folders, and no other user can read them."""
    wrong = False
    for what, folder in _folders().items():
        place = _nearest(folder)
        mode, mine = place.stat().st_mode, place.stat().st_uid == os.geteuid()
        if not place.is_dir():
            words = f"{shown(place)} is a file, but the folder for {what} belongs there"
            found = Finding("care", words, f"mv {shown(place)} {shown(place.with_name(f'{place.name}.old'))}")
        elif mine and mode & 0o700 != 0o700:
            words = f"{shown(place)} cannot be written by its owner ({what})"
            found = Finding("care", words, f"chmod u+rwx {shown(place)}")
        elif not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            words = f"{shown(place)} belongs to another user, or is on a read-only disk ({what})"
            found = Finding("care", words, f'sudo chown -R "$(id -un)" {shown(place)}')
        elif place == folder and what != "models" and mode & 0o007 and not folder.is_symlink():
            words = f"other users can read {shown(folder)} ({what})"
            found = Finding("care", words, f"chmod 700 {shown(folder)}")
        else:
            continue
        wrong = True
        yield found
    if not wrong:
        places = ", ".join(f"{what} in {shown(folder)}" for what, folder in _folders().items())
        yield Finding("ok", f"can be written: {places}")


def check_model(examination: Examination) -> Iterator[Finding]:
    """The model in use: whether it is there, where it runs and whether it fits."""
    settings = examination.settings
    if launch.elsewhere(settings):
        yield Finding("ok", f"the model runs elsewhere: {settings[keys.CONNECT]}")
        return
    again = f"{pip()} install --force-reinstall --no-deps srbwriter"
    try:
        path = launch.model_path(settings)
        if (error := launch.missing_model(settings)) is not None:
            raise error
        launch.check_models(settings)
    except (ModelError, ModelsError, ConfigError) as error:
        cure = {
            "remembered": "srbwriter models forget", "environment": f"unset {keys.MODEL.env}",
            "file": f"${{EDITOR:-nano}} {shown(paths.config_file())}", "default": again,
        }.get(settings.source(keys.MODEL), "srbwriter models")  # fmt: skip
        yield Finding("care", str(error), cure)
        return
    try:
        devices = examination.devices
    except NoNative:  # another check says so
        devices = []
    placement = launch.placement_of(path, launch.engine_options(settings), devices)
    if placement is None:
        return
    where = device_words(devices, placement.gpu_layers, placement.layers - 1)
    words = f"in use is {path.stem}: it runs on {where}, with a context of {placement.window} tokens"
    yield Finding("ok", words)
    for note in placement.notes:
        smaller = f"srbwriter models use {bundled_model().stem}"
        yield Finding("note" if placement.fits else "care", note, "" if placement.fits else smaller)


def check_models(examination: Examination) -> Iterator[Finding]:
    for model in local_models():
        if model.problem:
            ours = model.place == "models folder"
            yield Finding(
                "care" if ours else "note", f"{shown(model.path)}: {model.problem}", shown(model.path)
            )
        else:
            need = launch.model_need(examination.settings, model.header, model.size)
            verdict = need.verdict(memory(), memory_budget())
            yield Finding("ok", f"{model.name} ({size_words(model.size)}): {verdict}")


def check_stories(_: Examination) -> Iterator[Finding]:
    """Whether every page and checksum is sound, in the library and of stories opened lately."""
    from srbwriter.cli.stories import known_stories
    from srbwriter.story import Story, StoryError
    from srbwriter.story.backup import backups
    from srbwriter.story.check import check

    found = known_stories()
    sound, deadline = 0, time.monotonic() + STORIES_SECONDS
    for number, path in enumerate(found):
        if time.monotonic() > deadline:
            words = f"left out for lack of time: {len(found) - number} of {len(found)}"
            yield Finding("note", words, "srbwriter check")
            break
        problem = ""
        try:
            report = check(path)
            if not report.sound:
                problem = f"{shown(path)} is damaged: {report.damage or '; '.join(report.problems)}"
        except StoryError as error:
            problem = str(error)
        if not problem:
            sound += 1
            continue
        cure = f"srbwriter open {shown(path)}"
        try:
            with Story.open(path, readonly=True) as story:
                if backups(story.backup_folder(paths.backup_dir())):
                    cure = f"srbwriter backup restore {shown(path)}"
        except (StoryError, OSError):
            if not os.access(path, os.R_OK):
                cure = f"chmod u+rw {shown(path)}"
        yield Finding("care", problem, cure)
    yield Finding("ok", f"sound: {sound} of {len(found)}" if found else "there is no story yet")


def shown(path: Path) -> str:
    """Return a path as typed in a shell, with ~ for the home folder."""
    home = paths.expanded("~")
    if path != home and path.is_relative_to(home):
        return f"~/{shlex.quote(str(path.relative_to(home)))}"
    return shlex.quote(str(path))


def _nearest(path: Path) -> Path:
    """Return the folder, or its nearest existing parent."""
    return next((folder for folder in (path, *path.parents) if folder.exists()), ROOT)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _output(*command: str) -> str:
    """Return the output of a program; "" if it is missing, fails, or takes too long."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROGRAM_SECONDS, text=True,
            errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


Check = Callable[[Examination], Iterable[Finding]]

CHECKS: Sequence[tuple[str, Check, str]] = (
    ("versions", check_versions, f"{pip()} install {{}}"),
    ("llama.cpp", check_llama, "{}"),
    ("processor", check_processor, reinstall("GGML_NATIVE")),
    ("GPUs", check_gpus, "{}"),
    ("memory", check_memory, "ps -Ao rss,pid,comm | sort -rn | head"),
    ("threads", check_threads, 'docker update --cpus 2 "$(hostname)"'),
    ("settings", check_settings, "{}"),
    ("space", check_space, "du -xhd 1 {} | sort -h | tail"),
    ("folders", check_folders, "{}"),
    ("model", check_model, "{}"),
    ("models", check_models, "rm {}"),
    ("stories", check_stories, "{}"),
)
"""The name of each check, the check, and its cure, in which ``{}`` is what the finding names."""
