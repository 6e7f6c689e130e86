"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = ("srbwriter", "tests", "benchmarks", "tools", "examples")
SKIPPED = {"__pycache__", "node_modules"}

MAX_LINES = 800
MAX_APP_LINES = 300

# What belongs to the making of the program and not to the program.
FOREIGN = re.compile(r"/work/|\bshared/(?:reference|check|corpus)|\bissue #?\d|\bTODO\b|\bFIXME\b|\bXXX\b")


def files(*suffixes: str) -> Iterator[Path]:
    for room in OURS:
        for folder, names, leaves in os.walk(ROOT / room):
            names[:] = [name for name in names if name not in SKIPPED and not name.startswith(".")]
            yield from (Path(folder, leaf) for leaf in leaves if leaf.endswith(suffixes))


def prose() -> Iterator[Path]:
    yield from files(".py", ".md", ".toml", ".tcss", ".js", ".html", ".css", ".sh")
    for pattern in ("*.md", "*.toml", "docs/**/*.md", "themes/*", "sample_prompts/*"):
        yield from ROOT.glob(pattern)


def test_no_module_is_too_long() -> None:
    lengths = {str(file): len(file.read_text("utf-8").splitlines()) for file in files(".py")}
    assert not {file: lines for file, lines in lengths.items() if lines > MAX_LINES}


def test_the_app_class_stays_small() -> None:
    modules = {str(file): file.read_text("utf-8") for file in files(".py")}
    apps = [file for file, text in modules.items() if re.search(r"^class \w+\(\w*App[\[)]", text, re.M)]
    assert apps
    assert not [app for app in apps if len(modules[app].splitlines()) > MAX_APP_LINES]


def test_the_text_speaks_of_the_product_only() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {match.group()}"
        for file in prose()
        if file != Path(__file__) and (match := FOREIGN.search(file.read_text("utf-8")))
    ]
    assert not found


def test_every_module_says_what_it_is_for() -> None:
    modules = [file for file in files(".py") if ROOT / "srbwriter" in file.parents]
    assert modules
    texts = {file: file.read_text("utf-8") for file in modules}
    assert not [str(file) for file, text in texts.items() if text and not ast.get_docstring(ast.parse(text))]


@pytest.mark.parametrize("name", ["min_p", "xtc_threshold", "repeat_penalty"])
def test_a_parameter_is_a_row_of_the_table_and_little_else(name: str) -> None:
    """Its default, the sampler that it is for, and the dialects that mean another value by leaving it out."""
    modules = [file for file in files(".py") if ROOT / "srbwriter" in file.parents]
    lines = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in modules
        if file.name != "parameters.py"
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if name in line
    ]
    assert 1 < len(lines) < 10, lines
    assert len({line.partition(":")[0] for line in lines}) <= 6, lines


@pytest.mark.parametrize("asset", ["themes", "sample_prompts"])
def test_assets_are_packed_into_the_wheel(asset: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"][asset] == f"srbwriter/{asset}"
    assert (ROOT / asset).is_dir()
