"""What all contestants have in common: model, prompt, lengths, threads; and words for the machine."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from srbwriter.demo import bundled_model
from srbwriter.engine import Engine
from srbwriter.engine.cores import count_cores
from srbwriter.engine.native.context import flash_attention
from srbwriter.engine.types import EngineOptions, Sampling

TEXT = (
    "The ferry left at dusk, with three passengers and a crate of oranges. Nobody spoke until the lights of "
    "the harbour had gone. Then the oldest of them opened her bag, took out a letter, and read it aloud as "
    "if it had been written to all of us. It told of a house on the far shore where the lamps were lit. "
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One measurement's conditions.

    ``cells`` is the context size, shared by all branches; everybody gets it (0: what the engine takes). With
    ``defaults`` all else is what each side chooses for itself; without, everybody has what the engine would
    choose.
    """

    model: Path
    prompt: int = 128  # tokens
    tokens: int = 48  # per branch
    cells: int = 4096
    threads: int = 0  # 0: what the engine would take
    defaults: bool = False
    sampling: Sampling = Sampling()

    @property
    def thread_count(self) -> int:
        return self.threads or count_cores()

    @property
    def flash(self) -> bool:
        """Whether flash attention is on where it is the same for all: what the engine would choose."""
        return flash_attention(self.options()) != "off"

    def options(self, cells: int = 0) -> EngineOptions:
        threads = None if self.defaults else self.thread_count
        return EngineOptions(
            n_ctx=cells or self.cells or None, threads=threads, threads_batch=threads, gpu_layers=0, seed=1,
        )  # fmt: skip

    def sampler_fields(self) -> dict[str, float]:
        """Return the parameters of sampling by the names that llama.cpp's programs use."""
        s = self.sampling
        return {
            "temperature": s.temperature, "top_k": s.top_k, "top_p": s.top_p, "min_p": s.min_p,
            "repeat_penalty": s.repeat_penalty,
        }  # fmt: skip

    def words(self) -> str:
        """Model and settings, for the head of a table."""
        if self.defaults:
            return f"{self.model.name}, each side's defaults"
        threads = f"{self.thread_count} thread{'s' if self.thread_count > 1 else ''}"
        return f"{self.model.name}, {threads}, flash attention {'on' if self.flash else 'off'}"


def model_path(name: str, folder: Path | None = None) -> Path:
    """A file, ``bundled``, or a shape of :mod:`benchmarks.models`, in ``folder`` or made there if need be."""
    if name == "bundled":
        return bundled_model()
    if Path(name).exists():
        return Path(name)
    from benchmarks.models import model_file

    return model_file(name, folder)


def part_setting(args: argparse.Namespace, model: str, cells: int = 4096) -> Setting:
    """Return the conditions of a part that measures one model: the requested one, or ``model``."""
    path = model_path(args.model or model, args.models)
    return Setting(path, args.prompt or 128, args.tokens or 48, cells, args.threads)


def story_ids(engine: Engine, length: int, salt: str = "") -> list[int]:
    """A text of exactly ``length`` tokens; another ``salt`` makes it another text from the start."""
    ids = engine.tokenize(salt + TEXT)
    more = engine.tokenize(TEXT)
    while len(ids) < length:
        ids += more
    return ids[:length]


def load_average() -> str:
    """Return the load average of the last minute; "" if the system has none."""
    try:
        return f"load {os.getloadavg()[0]:.1f}"
    except (AttributeError, OSError):
        return ""


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:  # macOS
        ps = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, check=True)
        return int(ps.stdout) * 1024


def machine() -> str:
    """The machine in neutral words."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = file.read()
    except OSError:
        flags = ""
    vectors = next((f" with {word}" for flag, word in _VECTORS if flag in flags), "")
    return f"{os.cpu_count()}-core {platform.machine().replace('_', '-')}{vectors}, {platform.system()}"


_VECTORS = (("avx512f", "AVX-512"), ("avx2", "AVX2"), (" asimd", "NEON"))
