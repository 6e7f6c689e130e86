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
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from typing import Any, Literal, NamedTuple

from srbwriter import launch, paths
from srbwriter.cli.columns import document, plain
from srbwriter.cli.exits import Exit
from srbwriter.cli.flags import add_keys
from srbwriter.config import ConfigError, Settings, Table, keys
from srbwriter.demo import bundled_model
from srbwriter.engine.devices import Device, device_words, gpus
from srbwriter.engine.types import EngineError, ModelError
from srbwriter.models import ModelsError, free_memory, local_models, memory, size_words
from srbwriter.version import __version__

ROOT = Path("/")
"""The folder that contains ``proc``, ``sys`` and ``dev``."""

PROBE_SECONDS, PROGRAM_SECONDS = 60, 15
LEAST_MEMORY, LEAST_SPACE = 512_000_000, 100_000_000  # bytes that should be free
LLAMA = "llama-cpp-python"


class Finding(NamedTuple):
    """One sentence with a state: ok, note (worth knowing), or care. ``cure`` is a command."""

    state: Literal["ok", "note", "care"]
    words: str
    cure: str = ""


class NoNative(Exception):
    """llama.cpp does not respond; ``cure`` is a command that fixes it."""

    def __init__(self, problem: str, cure: str) -> None:
        self.cure = cure
        super().__init__(problem)


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
    report: list[dict[str, Any]] = []
    care = 0
    for name, check in CHECKS.items():
        found: list[Finding] = []
        try:
            found += check(settings)
        except NoNative as error:
            found.append(Finding("care", str(error), error.cure))
        except Exception as error:  # a check that fails is a finding too, and does not stop the others
            found.append(Finding("care", f"this check failed: {type(error).__name__}: {error}"))
        care += sum(finding.state == "care" for finding in found)
        report.append({"name": name, "findings": [finding._asdict() for finding in found]})
        if not arguments.json:
            print(name)
            for state, words, cure in found:
                print(f"  {state.upper() if state == 'care' else state:<4}  {plain(words)}")
                if cure:
                    print(f"          {plain(cure)}", flush=True)
    if arguments.json:
        print(document({"version": __version__, "care": care, "checks": report}))
    else:
        things = {0: "Nothing needs", 1: "1 thing needs"}.get(care, f"{care} things need")
        print(f"\n{things} care.")
    return Exit.ERROR if care else Exit.OK


# ---- llama.cpp and the machine


@cache
def ask_llama() -> dict[str, Any] | NoNative:
    """Ask llama.cpp about itself in another process, which a driver may hang or a wrong build may end."""
    command = [sys.executable, "-m", "srbwriter.engine.probe"]
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    try:
        done = subprocess.run(command, **options, timeout=PROBE_SECONDS, errors="replace")
        answer = json.loads(done.stdout or "{}")
    except subprocess.TimeoutExpired:
        problem = f"llama.cpp does not answer within {PROBE_SECONDS} seconds; the driver of a GPU may hang"
        return NoNative(problem, "sudo reboot")
    if done.returncode == -signal.SIGILL:
        return NoNative("llama.cpp was built for another processor than this one", reinstall())
    if not answer:
        last = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
        return NoNative(f"llama.cpp cannot be loaded: {last}", reinstall())
    return NoNative(answer["error"], reinstall()) if "error" in answer else answer


def _native() -> dict[str, Any]:
    """Return what llama.cpp says of itself. Raises NoNative."""
    if isinstance(answer := ask_llama(), NoNative):
        raise answer
    return answer


def pip() -> str:
    """Return the command for pip of the running Python."""
    found = shutil.which("pip")
    ours = found and Path(found).parent == Path(sys.executable).parent
    return "pip" if ours else f"{shlex.quote(sys.executable)} -m pip"


def reinstall(option: str = "") -> str:
    """Return the command that builds llama.cpp again on this machine, with an option of CMake."""
    pinned = next((line for line in requires("srbwriter") or () if line.startswith(LLAMA)), LLAMA)
    command = f"{pip()} install --force-reinstall --no-cache-dir --no-binary {LLAMA} {pinned}"
    return f'CMAKE_ARGS="-D{option}=on" {command}' if option else command


def check_machine(_: Settings) -> Iterator[Finding]:
    yield Finding("ok", f"srbwriter {__version__}, Python {platform.python_version()}, {platform.platform()}")
    words = f"{size_words(free_memory())} of {size_words(memory())} of memory free"
    if free_memory() >= LEAST_MEMORY:
        yield Finding("ok", words)
    else:
        yield Finding("care", f"{words}: too little for a model", "ps -Ao rss,pid,comm | sort -rn | head")


_NEEDED = {"avx": "AVX", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "asimddp": "DOTPROD"}
"""Processor features without which llama.cpp is several times slower: name in Linux, name in llama.cpp."""


def check_llama(_: Settings) -> Iterator[Finding]:
    """How llama.cpp was built, and whether it uses what this processor has."""
    build = _native()["build"]
    backends = ", ".join(build["backends"]) or "none"
    yield Finding("ok", f"{LLAMA} {build['binding']}, ggml {build['ggml']}, backends: {backends}")
    used = set(re.findall(r"(\w+) = 1", build["features"]))
    there = set(re.findall(r"\w+", _read(ROOT / "proc/cpuinfo")))
    if missing := [ours for theirs, ours in _NEEDED.items() if theirs in there and ours not in used]:
        words = f"llama.cpp was built without {', '.join(missing)}, which this processor has: it is slow"
        yield Finding("care", words, reinstall("GGML_NATIVE"))


def check_gpus(settings: Settings) -> Iterator[Finding]:
    used = gpus([Device(**row) for row in _native()["devices"]])
    for device in used:
        words = f"{device.product}: {size_words(device.free)} of {size_words(device.total)} free"
        yield Finding("ok", f"{words}, used through {device.name}")
    if used and settings[keys.GPU_LAYERS] == 0:
        words = f"no layer runs on it, because {settings.place(keys.GPU_LAYERS)} says so"
        yield Finding("ok", f"{words}; without that it is fitted")
    if any(device.kind == "gpu" for device in used):
        return
    # With one in the processor in use, only a card of its own is worth another build.
    seen = [gpu for gpu in _seen_gpus() if not used or gpu[1] in ("CUDA", "HIP")]
    for name, option in seen:
        words = f"{name} is there, and llama.cpp was built without {option}: it is not used"
        yield Finding("care", words, reinstall(f"GGML_{option}"))
    if not seen and not used:
        yield Finding("ok", "the system sees none; the model runs on the processor")


def _seen_gpus() -> list[tuple[str, str]]:
    """Return the GPUs that the system sees, each with what llama.cpp must be built with."""
    names = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    found = [(name.strip(), "CUDA") for name in names if name.strip()]
    if (ROOT / "dev/kfd").exists():
        nodes = sorted((ROOT / "sys/class/kfd/kfd/topology/nodes").glob("*/properties"))
        amd = [file for file in nodes if re.search(r"(?m)^simd_count [1-9]", _read(file))]
        found += [(_read(file.with_name("name")) or "a GPU of AMD's", "HIP") for file in amd]
    if sys.platform == "darwin" and platform.machine() == "arm64":
        found.append(("the GPU of Apple's chip", "METAL"))
    if not found:
        blocks = re.split(r"(?m)^GPU\d+:", _output("vulkaninfo", "--summary"))[1:]
        real = [block for block in blocks if "PHYSICAL_DEVICE_TYPE_CPU" not in block]
        found = [(name, "VULKAN") for block in real for name in re.findall(r"deviceName\s*=\s*(.+)", block)]
    return found


# ---- files


def check_settings(settings: Settings) -> Iterator[Finding]:
    for words in settings.warnings:
        cure = f"${{EDITOR:-nano}} {shown(paths.config_file())}"
        if (found := re.search(r"\bSRBWRITER_[A-Z_]+", words)) and "=" not in words[: found.start()]:
            cure = f"unset {found.group()}"
        elif words.startswith(str(paths.overlay_file())):
            cure = f"rm {shown(paths.overlay_file())}"
        yield Finding("care", words, cure)
    if not settings.warnings:
        missing = "" if paths.config_file().exists() else " does not exist, so the defaults hold"
        yield Finding("ok", f"{shown(paths.config_file())}{missing}")


def check_folders(_: Settings) -> Iterator[Finding]:
    """Whether the program can write to its folders, and no other user can read them."""
    for what, folder in {
        "stories": paths.library_dir(), "models": paths.models_dir(),
        "copies, logs and locks": paths.state_dir(), "cached model states": paths.cache_dir(),
    }.items():  # fmt: skip
        place = next(above for above in (folder, *folder.parents) if above.exists())
        here, free, mode = shown(place), shutil.disk_usage(place).free, place.stat().st_mode
        if not place.is_dir() or not os.access(place, os.R_OK | os.W_OK | os.X_OK) or mode & 0o700 != 0o700:
            yield Finding("care", f"{here} cannot be written ({what})", f"chmod u+rwx {here}; ls -ld {here}")
        elif place == folder and what != "models" and mode & 0o007 and not folder.is_symlink():
            yield Finding("care", f"other users can read {here} ({what})", f"chmod 700 {here}")
        elif free < LEAST_SPACE:
            words = f"{what}: {size_words(free)} free in {here}: too little to save safely"
            yield Finding("care", words, f"du -xhd 1 {here} | sort -h | tail")
        else:
            yield Finding("ok", f"{what}: {shown(folder)}, {size_words(free)} free")


def check_model(settings: Settings) -> Iterator[Finding]:
    """The model in use: whether it is there, where it runs and whether it fits."""
    if launch.elsewhere(settings):
        from srbwriter.engine.remote.engine import RemoteEngine

        try:
            with RemoteEngine.connect(launch.remote_options(settings)) as engine:
                yield from (Finding("ok", line) for line in engine.dialect.lines())
        except (EngineError, ConfigError) as error:
            yield Finding("care", str(error))
        return
    try:
        path = launch.model_path(settings)
        launch.check_models(settings)
    except (ModelError, ModelsError, ConfigError) as error:
        cures = {
            "remembered": "srbwriter models forget",
            "environment": f"unset {keys.MODEL.env}",
            "file": f"${{EDITOR:-nano}} {shown(paths.config_file())}",
            "default": f"{pip()} install --force-reinstall --no-deps srbwriter",
        }
        yield Finding("care", str(error), cures.get(settings.source(keys.MODEL), "srbwriter models"))
        return
    answer = ask_llama()  # another check says that it does not answer
    devices = [] if isinstance(answer, NoNative) else [Device(**row) for row in answer["devices"]]
    if placement := launch.placement_of(path, launch.engine_options(settings), devices):
        where = device_words(devices, placement.gpu_layers, placement.layers - 1)
        words = f"in use is {path.stem}: it runs on {where}, with a context of {placement.window} tokens"
        yield Finding("ok", words)
        for note in placement.notes:
            smaller = f"srbwriter models use {bundled_model().stem}"
            yield Finding("note" if placement.fits else "care", note, "" if placement.fits else smaller)
    for model in local_models():
        if model.problem:
            ours = model.place == "models folder"
            words = f"{shown(model.path)}: {model.problem}"
            yield Finding("care" if ours else "note", words, f"rm {shown(model.path)}")


def shown(path: Path) -> str:
    """Return a path as typed in a shell, with ~ for the home folder."""
    home = paths.expanded("~")
    if path != home and path.is_relative_to(home):
        return f"~/{shlex.quote(str(path.relative_to(home)))}"
    return shlex.quote(str(path))


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _output(*command: str) -> str:
    """Return the output of a program; "" if it is missing, fails, or takes too long."""
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    try:
        done = subprocess.run(command, **options, timeout=PROGRAM_SECONDS, errors="replace")
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


CHECKS: dict[str, Callable[[Settings], Iterable[Finding]]] = {
    "this machine": check_machine,
    "llama.cpp": check_llama,
    "GPUs": check_gpus,
    "settings": check_settings,
    "folders": check_folders,
    "model": check_model,
}
