"""``srbwriter doctor``: findings about this machine and the program's files."""

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
from collections.abc import Iterator
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
from srbwriter.engine.types import EngineError
from srbwriter.gguf import Damaged, contents
from srbwriter.models.fit import free_memory, memory, size_words
from srbwriter.models.local import look_at
from srbwriter.version import __version__

CPUINFO, AMD = Path("/proc/cpuinfo"), Path("/dev/kfd")
PROBE_SECONDS = 60
LEAST_MEMORY, LEAST_SPACE = 512_000_000, 100_000_000  # bytes that should be free
LLAMA = "llama-cpp-python"
_NEEDED = {"avx": "AVX", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "asimddp": "DOTPROD"}
"""Processor features without which llama.cpp is several times slower: name in Linux, name in llama.cpp."""


class Finding(NamedTuple):
    """One sentence with a state: ok, note (worth knowing), or care. ``cure`` is a command."""

    state: Literal["ok", "note", "care"]
    words: str
    cure: str = ""


def doctor_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_keys(parser, table, ("model",))


def run_doctor(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Check this machine and the program's files: each finding, and the command that mends it.
    Nothing is changed. The exit code is 1 if something needs care.

      srbwriter doctor
      srbwriter doctor --json
      srbwriter doctor -m novelist
    """
    found: list[Finding] = []
    for finding in (*examine_machine(), *examine_files(settings), *examine_model(settings)):
        found.append(finding)
        if not arguments.json:
            state, words, cure = finding
            print(f"{state.upper() if state == 'care' else state:<4}  {plain(words)}")
            if cure:
                print(f"        {plain(cure)}", flush=True)
    care = sum(finding.state == "care" for finding in found)
    if arguments.json:
        findings = [finding._asdict() for finding in found]
        print(document({"version": __version__, "care": care, "findings": findings}))
    else:
        things = {0: "Nothing needs", 1: "1 thing needs"}.get(care, f"{care} things need")
        print(f"\n{things} care.")
    return Exit.ERROR if care else Exit.OK


@cache
def ask_llama() -> dict[str, Any]:
    """Ask llama.cpp about itself in another process, which a driver may hang or a wrong build may end.

    The answer has ``build`` and ``devices``, or ``error`` and ``cure``.
    """
    command = [sys.executable, "-m", "srbwriter.engine.probe"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_SECONDS, errors="replace"
        )
        answer: dict[str, Any] = json.loads(done.stdout or "{}")
    except subprocess.TimeoutExpired:
        problem = f"llama.cpp does not answer within {PROBE_SECONDS} seconds; the driver of a GPU may hang"
        return {"error": problem, "cure": "sudo reboot"}
    if done.returncode == -signal.SIGILL:
        answer = {"error": "llama.cpp was built for another processor than this one"}
    elif not answer:
        last = (done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"])[-1]
        answer = {"error": f"llama.cpp cannot be loaded: {last}"}
    return {**answer, "cure": reinstall()} if "error" in answer else answer


def reinstall(option: str = "") -> str:
    """Return the command that builds llama.cpp again on this machine, with an option of CMake."""
    pinned = next((line for line in requires("srbwriter") or () if line.startswith(LLAMA)), LLAMA)
    pip = f"{shlex.quote(sys.executable)} -m pip"
    command = f"{pip} install --force-reinstall --no-cache-dir --no-binary {LLAMA} {pinned}"
    return f'CMAKE_ARGS="-D{option}=on" {command}' if option else command


def examine_machine() -> Iterator[Finding]:
    """Look at memory, the build of llama.cpp, and the GPUs."""
    yield Finding("ok", f"srbwriter {__version__}, Python {platform.python_version()}, {platform.platform()}")
    words = f"{size_words(free_memory())} of {size_words(memory())} of memory free"
    if free_memory() >= LEAST_MEMORY:
        yield Finding("ok", words)
    else:
        yield Finding("care", f"{words}: too little for a model", "ps -Ao rss,pid,comm | sort -rn | head")
    answer = ask_llama()
    if "error" in answer:
        yield Finding("care", answer["error"], answer["cure"])
        return
    build = answer["build"]
    backends = ", ".join(build["backends"]) or "none"
    yield Finding("ok", f"{LLAMA} {build['binding']}, ggml {build['ggml']}, backends: {backends}")
    used = set(re.findall(r"(\w+) = 1", build["features"]))
    there = set(re.findall(r"\w+", CPUINFO.read_text("utf-8", "replace"))) if CPUINFO.exists() else set[str]()
    if missing := [ours for theirs, ours in _NEEDED.items() if theirs in there and ours not in used]:
        words = f"llama.cpp was built without {', '.join(missing)}, which this processor has: it is slow"
        yield Finding("care", words, reinstall("GGML_NATIVE"))
    devices = gpus([Device(**row) for row in answer["devices"]])
    for device in devices:
        words = f"{device.product}: {size_words(device.free)} of {size_words(device.total)} free"
        yield Finding("ok", f"{words}, used through {device.name}")
    if devices:
        return
    seen = [("a GPU by AMD", "HIP")] if AMD.exists() else []
    if sys.platform == "darwin" and platform.machine() == "arm64":
        seen.append(("the GPU of Apple's chip", "METAL"))
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=15)
        seen += [(name, "CUDA") for name in done.stdout.splitlines() if done.returncode == 0]
    for name, option in seen:
        words = f"{name} is there, and llama.cpp was built without {option}: it is not used"
        yield Finding("care", words, reinstall(f"GGML_{option}"))
    if not seen:
        yield Finding("ok", "no GPU is found; the model runs on the processor")


def examine_files(settings: Settings) -> Iterator[Finding]:
    """Look at the settings, and whether the program can write to its folders."""
    for words in settings.warnings:
        own = words.startswith(str(paths.overlay_file()))
        cure = f"rm {paths.overlay_file()}" if own else f"${{EDITOR:-nano}} {paths.config_file()}"
        variable = re.match(r"(?:unknown variable )?(SRBWRITER_\w+)", words)
        yield Finding("care", words, f"unset {variable[1]}" if variable else cure)
    for what, folder in {
        "stories": paths.library_dir(), "models": paths.models_dir(),
        "copies, logs and locks": paths.state_dir(), "cached model states": paths.cache_dir(),
    }.items():  # fmt: skip
        place = next(above for above in (folder, *folder.parents) if above.exists())
        here, free = shlex.quote(str(place)), shutil.disk_usage(place).free
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK) or place.stat().st_mode & 0o700 != 0o700:
            yield Finding("care", f"{here} cannot be written ({what})", f"chmod u+rwx {here}; ls -ld {here}")
        elif free < LEAST_SPACE:
            words = f"{what}: {size_words(free)} free in {here}: too little to save safely"
            yield Finding("care", words, f"du -xhd 1 {here} | sort -h | tail")
        else:
            yield Finding("ok", f"{what}: {folder}, {size_words(free)} free")


def _cut_short(path: Path) -> str:
    """Return a problem where a tensor that the header lists begins behind the end of the file."""
    try:
        _, tensors = contents(path)
    except Damaged as error:
        return error.problem
    size = path.stat().st_size
    cut = any(tensor.offset >= size for tensor in tensors)
    return "its weights are cut short; download it again" if cut else ""


def examine_model(settings: Settings) -> Iterator[Finding]:
    """Look at the model in use: whether it is there, where it runs and whether it fits."""
    if launch.elsewhere(settings):
        from srbwriter.engine.remote.engine import RemoteEngine

        try:
            with RemoteEngine.connect(launch.remote_options(settings)) as engine:
                yield from (Finding("ok", line) for line in engine.dialect.lines())
        except (EngineError, ConfigError) as error:
            yield Finding("care", str(error))
        return
    path = launch.model_path(settings)
    if problem := look_at(path).problem or _cut_short(path):
        forget = settings.source(keys.MODEL) == "remembered"
        cure = "srbwriter models forget" if forget else "srbwriter models"
        yield Finding("care", f"{path}: {problem}", cure)
        return
    devices = [Device(**row) for row in ask_llama().get("devices", ())]
    if placement := launch.placement_of(path, launch.engine_options(settings), devices):
        where = device_words(devices, placement.gpu_layers, placement.layers - 1)
        words = f"in use is {path.stem}: it runs on {where}, with a context of {placement.window} tokens"
        yield Finding("ok", words)
        for note in placement.notes:
            smaller = f"srbwriter models use {bundled_model().stem}"
            yield Finding("note" if placement.fits else "care", note, "" if placement.fits else smaller)
