"""Which model is meant, and which of several suits this machine. Knows names and sizes; asks nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from srbwriter.models.errors import NoSuchModel
from srbwriter.models.names import SUFFIX, quantisation

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")

_FULL = {"F32", "FP32", "F16", "FP16", "BF16"}
_FINEST = 6
"""Bits above which a reader sees no difference: Q6_K's perplexity is within 0.1 % of the full model's
(table in llama.cpp's ``tools/quantize/README.md``)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for: a repository, and a quantisation or file of it, if any was named."""

    repo: str
    what: str = ""

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Read ``OWNER/REPO[:QUANT or FILE]``; a page's address will do. Raises NoSuchModel."""
        bare = re.sub(r"^(https?://)?(huggingface\.co|hf\.co)/", "", text.strip())
        repo, _, what = bare.partition(":")
        if not _REPOSITORY.fullmatch(repo) or any(part.strip(".") == "" for part in repo.split("/")):
            raise NoSuchModel(
                f"{text}: expected OWNER/REPO, OWNER/REPO:QUANT or OWNER/REPO:FILE, "
                "for example ggml-org/gemma-3-1b-it-GGUF:Q4_K_M"
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
