"""What fits this machine: its memory, the memory that a model needs, and the best of several models.

Uses headers, names and sizes. The caller passes the number of cells of the KV cache.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, get_args
from urllib.parse import unquote, urlsplit

from srbwriter.models.files import SUFFIX, Header, NoSuchModel, quantisation

# ---- this machine

USABLE = 0.75
"""Share of the memory that a model may take; the rest is for the system and other programs."""

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where Linux says what a container may use (cgroups version 2 and 1)."""


def memory() -> int:
    """Bytes of memory this process could use: the machine's, or less in a container."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(total, *(_limit(file, total) for file in _LIMITS))


def memory_budget() -> int:
    """Bytes that a model can take without pressing everything else out of memory."""
    return int(memory() * USABLE)


_IN_USE = (Path("/sys/fs/cgroup/memory.current"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"))
"""Where it says what the container uses, in the order of the limits."""


def free_memory() -> int:
    """Bytes that could be taken now without pressing anything else out of memory.

    Files that are only cached count as free.
    """
    import psutil

    free = psutil.virtual_memory().available
    for limit, used in zip(_LIMITS, _IN_USE, strict=True):
        if (most := _limit(limit, 0)) and (cached := _cached(limit.with_name("memory.stat"))) is not None:
            free = min(free, most - _limit(used, 0) + cached)
    return free


def _cached(file: Path) -> int | None:
    """Bytes of a container's memory that hold files and can be given back."""
    try:
        words = file.read_text("ascii").split()
    except OSError:
        return None
    figures = dict(zip(words[::2], words[1::2], strict=False))
    return int(figures.get("inactive_file", 0)) + int(figures.get("active_file", 0))


def _limit(file: Path, total: int) -> int:
    try:
        return int(file.read_text("ascii"))
    except (OSError, ValueError):  # there is no such limit, or it reads "max"
        return total


def size_words(size: float) -> str:
    """Bytes in words with decimal prefixes, for example ``3.4 GB``."""
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


# ---- what a model takes

BITS = {
    "f32": 32.0, "f16": 16.0, "bf16": 16.0, "q8_0": 8.5, "q5_1": 6.0, "q5_0": 5.5, "q4_1": 5.0, "q4_0": 4.5,
    "iq4_nl": 4.5,
}  # fmt: skip
"""Bits that one number takes, scales included (block sizes of ``ggml-common.h``)."""

Verdict = Literal["fits", "slow", "tight", "too large"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The best first. ``slow`` is what finds the memory and writes fewer than ``LEAST_WORDS`` words a second."""


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of memory, by what they are for."""

    weights: int
    cache: int
    compute: int

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.compute

    def verdict(self, memory: int, budget: int) -> Verdict:
        """Whether it ``fits`` the budget, is ``tight`` in the whole memory, or is ``too large``."""
        if self.total <= budget:
            return "fits"
        return "tight" if self.total <= memory else "too large"


DEFAULT_BATCH = 512
"""Most tokens that are computed at once unless a number is given."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a model is to be run, as far as memory goes.

    ``cells`` are the tokens that the cache holds, ``batch`` the most tokens computed at once, ``outputs``
    the most of them that get probabilities. Without ``flash_attention`` all scores of a batch are kept.
    """

    cells: int
    key_type: str = "f16"
    value_type: str = "f16"
    flash_attention: bool = False
    batch: int = DEFAULT_BATCH
    outputs: int = 128


def need(header: Header | None, weights: int, run: Run) -> Need:
    """Return the memory that a model needs; without a header, the known part of it.

    The cache is exact; computing was within 5 % of what llama.cpp reserves on a CPU for models of 5 million
    to 1.1 billion parameters. A state that some models keep instead of a cache is left out.

    Args:
        header: the header of the model's file.
        weights: size of its files in bytes.
        run: how it will be run.
    """
    if header is None:
        return Need(weights, 0, 0)
    return Need(weights, cache_bytes(header.kv_widths, run), compute_bytes(header, run))


def cache_bytes(widths: Sequence[tuple[int, int]], run: Run) -> int:
    """Return the bytes that layers keep of all cells; ``widths`` as in :class:`Header`."""
    keys = sum(key for key, _ in widths)
    values = sum(value for _, value in widths)
    return int(run.cells * (keys * BITS[run.key_type] + values * BITS[run.value_type]) / 8)


def compute_bytes(header: Header, run: Run) -> int:
    """Return about how many bytes computing a batch takes."""
    rows = _FLOAT * run.batch * (_WIDTHS * header.width + _HIDDEN * header.hidden)
    logits = _FLOAT * run.outputs * header.vocabulary
    for_each_cell = _FLOAT // 2 if run.flash_attention else _FLOAT * (1 + header.heads)  # mask, scores
    return rows + logits + run.batch * run.cells * for_each_cell


_FLOAT = 4
_WIDTHS, _HIDDEN = 6, 3
"""Live rows of a layer's width and of its hidden width while a batch is computed; measured."""


# ---- which one is meant, and which of several suits

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")

_FULL = {"F32", "FP32", "F16", "FP16", "BF16"}
_FINEST = 6
"""Bits above which a reader sees no difference: Q6_K's perplexity is within 0.1 % of the full model's
(table in llama.cpp's ``tools/quantize/README.md``)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request: a repository, and a quantisation or file of it, if one was named."""

    repo: str
    what: str = ""

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Read ``OWNER/REPO[:QUANT or FILE]``; a page's address will do. Raises NoSuchModel."""
        bare = re.sub(r"^(https?://)?(huggingface\.co|hf\.co)/", "", text.strip())
        repo, _, what = bare.partition(":")
        if not _REPOSITORY.fullmatch(repo) or any(part.strip(".") == "" for part in repo.split("/")):
            raise NoSuchModel(
                f"{text}: expected OWNER/REPO, OWNER/REPO:QUANT or OWNER/REPO:FILE — "
                "`srbwriter models recommended` lists models by these names"
            )
        return cls(repo, what)


def matches(files: Sequence[str], what: str) -> list[int]:
    """The places of the files that ``what`` names: by path, by name, or by quantisation."""
    tests: tuple[Callable[[str], bool], ...] = (
        lambda file: file == what,
        lambda file: PurePosixPath(file).name == what,
        lambda file: quantisation(file) == what.upper(),
        lambda file: quantisation(file).removeprefix("UD-") == what.upper(),
    )
    for test in tests:
        if found := [index for index, file in enumerate(files) if test(file)]:
            return found
    return []


def suggest(sizes: Sequence[tuple[str, int]], fits: Callable[[int], bool]) -> int:
    """Which of several quantisations to take: the finest that fits, up to six bits; else the smallest.

    Args:
        sizes: name of the quantisation and bytes of weights of each.
        fits: whether weights of that many bytes fit this machine.
    """
    everyone = list(range(len(sizes)))
    small = [i for i in everyone if sizes[i][0] not in _FULL] or everyone
    modest = [i for i in small if _bits(sizes[i][0]) <= _FINEST] or small
    for group in (modest, small):
        if fitting := [i for i in group if fits(sizes[i][1])]:
            return max(fitting, key=lambda i: sizes[i][1])
    return min(everyone, key=lambda i: sizes[i][1])


def _bits(name: str) -> int:
    found = re.search(r"\d", name)
    return int(found.group()) if found else 0


def url_file(folder: Path, url: str) -> Path:
    """Where in ``folder`` a model from ``url`` is kept. Raises NoSuchModel if that is no file's address."""
    try:
        parsed = urlsplit(url)
        name = PurePosixPath(unquote(parsed.path)).name
    except ValueError:
        parsed, name = urlsplit(""), ""
    if parsed.scheme not in ("http", "https") or not parsed.netloc or not name.strip("."):
        raise NoSuchModel(f"{url}: expected the address of a GGUF file, beginning with http:// or https://")
    return folder / (name if name.lower().endswith(SUFFIX) else f"{name}{SUFFIX}")
