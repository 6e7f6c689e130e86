"""Checks of the machine: versions, llama.cpp, processor, GPUs, memory, threads."""

from __future__ import annotations

import os
import platform
import re
import shlex
import socket
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from srbwriter.cli.doctor import findings
from srbwriter.cli.doctor.findings import Examination, Finding, pip, reinstall, requirements, run_program
from srbwriter.config import keys
from srbwriter.engine.cores import affinity, count_cores, tightest_quota
from srbwriter.engine.devices import gpus
from srbwriter.models import memory, size_words
from srbwriter.models.fit import free_memory
from srbwriter.version import __version__

LEAST_MEMORY = 512_000_000  # bytes that should be free

_NAME = re.compile(r"[\w.-]+")


def check_versions(_: Examination) -> Iterator[Finding]:
    """Report the versions of srbwriter, Python, the system and every required package."""
    yield Finding("ok", f"srbwriter {__version__}, Python {platform.python_version()}, {platform.platform()}")
    for line in requirements():
        found = _NAME.match(line)
        if found is None:
            continue
        name, wanted = found.group(), line.partition(";")[0].partition("==")[2].strip()
        cure = f"{pip()} install {shlex.quote(line.partition(';')[0].strip())}"
        try:
            installed = version(name)
        except PackageNotFoundError:
            yield Finding("care", f"the package {name} is missing", cure)
            continue
        if wanted and installed != wanted:
            yield Finding("care", f"{name} is {installed}; srbwriter is written for {wanted}", cure)


def check_llama(examination: Examination) -> Iterator[Finding]:
    """Report the installed llama.cpp and its backends."""
    native = examination.native
    build = native.build
    backends = ", ".join(build.backends) or "none"
    yield Finding("ok", f"llama-cpp-python {build.binding}, ggml {build.ggml}, backends: {backends}")
    if native.amx_broken:
        yield Finding(
            "note",
            "the compiler that built llama.cpp has a fault in AMX code, so AMX is not used; built by clang "
            "or GCC 14, it reads prompts faster",
            reinstall("CC=clang CXX=clang++"),
        )


_NEEDED = {"avx": "AVX", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "asimddp": "DOTPROD"}
"""Processor features without which llama.cpp is several times slower: name in Linux, name in llama.cpp."""

_USEFUL = {
    "avx512f": "AVX512", "avx512_vnni": "AVX512_VNNI", "avx512_bf16": "AVX512_BF16", "avx_vnni": "AVX_VNNI",
    "i8mm": "MATMUL_INT8", "sve": "SVE",
}  # fmt: skip


def check_processor(examination: Examination) -> Iterator[Finding]:
    """Report processor features that llama.cpp was built without."""
    name, flags = _processor()
    used = set(re.findall(r"(\w+) = 1", examination.native.build.features))
    yield Finding("ok", f"{name}; llama.cpp uses {', '.join(sorted(used)) or 'no special features'}")
    missing = [ours for theirs, ours in _NEEDED.items() if theirs in flags and ours not in used]
    if missing:
        words = f"llama.cpp was built without {', '.join(missing)}, which this processor has: it is slow"
        yield Finding("care", words, reinstall('CMAKE_ARGS="-DGGML_NATIVE=on"'))
    unused = [ours for theirs, ours in _USEFUL.items() if theirs in flags and ours not in used]
    if unused and not missing:
        words = f"built for this processor alone, llama.cpp would also use {', '.join(unused)}"
        yield Finding("note", words, reinstall('CMAKE_ARGS="-DGGML_NATIVE=on"'))


def _processor() -> tuple[str, set[str]]:
    """Return the name of the processor and its features as Linux names them; no features on other systems."""
    rows = dict[str, str]()
    for line in _read(findings.ROOT / "proc/cpuinfo").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            rows.setdefault(name.strip().lower(), value.strip())
    name = rows.get("model name") or platform.processor() or platform.machine()
    return name, set((rows.get("flags") or rows.get("features") or "").split())


# ---- GPUs


class Seen(NamedTuple):
    """A GPU that the system detects, and how llama.cpp must be built for it."""

    name: str
    backend: str
    variables: str


def check_gpus(examination: Examination) -> Iterator[Finding]:
    """Check that llama.cpp uses the GPUs that the system detects."""
    used = gpus(examination.native.devices)
    for device in used:
        words = f"{device.product}: {size_words(device.free)} of {size_words(device.total)} free"
        yield Finding("ok", f"{words}, used through {device.name}")
    if used and examination.settings[keys.GPU_LAYERS] == 0:
        place = examination.settings.place(keys.GPU_LAYERS)
        yield Finding("note", f"no layer runs on it, because {place} says so; without that it is fitted")
    if any(device.kind == "gpu" for device in used):
        return
    seen = list(seen_gpus(findings.ROOT))
    if used:  # an integrated GPU is in use; look for a discrete one
        seen = [gpu for gpu in seen if gpu.backend in ("CUDA", "ROCm")]
    for gpu in seen:
        words = f"{gpu.name} is there, and llama.cpp was built without {gpu.backend}: it is not used"
        yield Finding("care", words, reinstall(gpu.variables))
    if not seen and not used:
        yield Finding("ok", "the system sees none; the model runs on the processor")


def seen_gpus(root: Path) -> Iterator[Seen]:
    """Yield the GPUs that the system detects; Vulkan GPUs only if no other way finds one."""
    found = [
        *(Seen(name, "CUDA", 'CMAKE_ARGS="-DGGML_CUDA=on"') for name in _nvidia(root)),
        *(Seen(name, "ROCm", 'CMAKE_ARGS="-DGGML_HIP=on"') for name in _amd(root)),
    ]
    if sys.platform == "darwin" and platform.machine() == "arm64":
        found.append(Seen("the GPU of Apple's chip", "Metal", 'CMAKE_ARGS="-DGGML_METAL=on"'))
    if not found:
        found += [Seen(name, "Vulkan", 'CMAKE_ARGS="-DGGML_VULKAN=on"') for name in _vulkan()]
    return iter(found)


def _nvidia(root: Path) -> list[str]:
    report = run_program(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]) or ""
    if names := [line.strip() for line in report.splitlines() if line.strip()]:
        return names
    files = sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
    models = [re.search(r"^Model:\s*(.+)$", _read(file), re.MULTILINE) for file in files]
    return [found.group(1).strip() if found else "a GPU of NVIDIA's" for found in models]


def _amd(root: Path) -> list[str]:
    if not (root / "dev/kfd").exists():
        return []
    nodes = sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties"))
    computing = [file for file in nodes if re.search(r"^simd_count [1-9]", _read(file), re.MULTILINE)]
    return [_read(file.with_name("name")) or "a GPU of AMD's" for file in computing]


def _vulkan() -> list[str]:
    blocks = re.split(r"^GPU\d+:", run_program(["vulkaninfo", "--summary"]) or "", flags=re.MULTILINE)[1:]
    real = [block for block in blocks if "PHYSICAL_DEVICE_TYPE_CPU" not in block]
    names = [re.search(r"deviceName\s*=\s*(.+)", block) for block in real]
    return [found.group(1).strip() for found in names if found]


# ---- memory and threads


def check_memory(_: Examination) -> Iterator[Finding]:
    """Report total and free memory."""
    free = free_memory()
    words = f"{size_words(free)} of {size_words(memory())} free"
    if free < LEAST_MEMORY:
        flags = "-Amo" if sys.platform == "darwin" else "--sort=-rss -eo"
        cure = f"ps {flags} rss,pid,comm | head"
        yield Finding("care", f"{words}: too little for a model; end what takes most of it", cure)
        return
    yield Finding("ok", words)


def check_threads(_: Examination) -> Iterator[Finding]:
    """Report how many cores may be used, by affinity and by the quota of the control groups."""
    allowed, there = affinity(), os.cpu_count() or 1
    cores = count_cores(root=findings.ROOT)
    quota, group = tightest_quota(findings.ROOT)
    report = (
        f"the affinity mask has {len(allowed)} of {there} processors" if allowed else f"{there} processors"
    )
    limit = "no quota" if quota is None else f"a quota of {quota:g} cores"
    yield Finding("ok", f"{_counted(cores, 'thread')} for writing: {report}, {limit}")
    if quota is not None and quota < 1:
        words = (
            f"a quota of {quota:g} of a core makes every step wait for its next share of time, and the text "
            "comes in jerks; give more where the quota was set"
        )
        yield Finding("care", words, _more_quota(group))
    if allowed and len(allowed) < there and (quota is None or quota > len(allowed)):
        words = "srbwriter may not use the other processors, if this is not on purpose"
        yield Finding("note", words, f"taskset -cp 0-{there - 1} $$")


def _more_quota(group: Path) -> str:
    """Return the command that grants two cores, for a systemd unit or for the container."""
    if group.suffix in (".service", ".scope", ".slice"):
        return f"sudo systemctl set-property --runtime {shlex.quote(group.name)} CPUQuota=200%"
    program = "podman" if (findings.ROOT / "run/.containerenv").exists() else "docker"
    return f"{program} update --cpus 2 {shlex.quote(socket.gethostname())}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


CHECKS: Sequence[tuple[str, findings.Check]] = (
    ("versions", check_versions),
    ("llama.cpp", check_llama),
    ("processor", check_processor),
    ("GPUs", check_gpus),
    ("memory", check_memory),
    ("threads", check_threads),
)
