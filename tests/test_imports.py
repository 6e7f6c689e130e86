"""What each room may load, asked of fresh interpreters: start-up stays fast and rooms stay apart."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import srbwriter

HEAVY = {"textual", "rich", "llama_cpp", "numpy", "fastapi", "starlette", "uvicorn"}


def loaded_by(code: str) -> set[str]:
    """The top-level modules in a fresh interpreter after ``code``, which may end in SystemExit."""
    probe = f"""
import contextlib, io, json, sys
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    exec({code!r})
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    """By rooms that every command needs, and by a command line that is answered without more."""
    rooms = "srbwriter, srbwriter.engine.types, srbwriter.engine.parameters, srbwriter.config"
    assert not loaded_by(f"import {rooms}, srbwriter.launch, srbwriter.logs, srbwriter.demo") & HEAVY
    lines = (["--help"], ["--version"], ["write", "--help"], ["--no-such-flag"])
    each = "    with contextlib.suppress(SystemExit): main(line)"
    assert not loaded_by(f"from srbwriter.cli import main\nfor line in {lines}:\n{each}") & HEAVY


@pytest.mark.parametrize(
    ("module", "strangers"),
    [
        ("srbwriter.engine", HEAVY - {"llama_cpp", "numpy"}),
        ("srbwriter.engine.remote.engine", HEAVY - {"rich"}),  # which httpx loads where it finds it
        ("srbwriter.server", {"textual", "rich", "llama_cpp"}),
        ("srbwriter.tui", {"fastapi", "starlette", "uvicorn"}),
    ],
)
def test_a_room_loads_nothing_of_its_siblings(module: str, strangers: set[str]) -> None:
    found = loaded_by(f"import {module}")
    assert not found & strangers
    assert module != "srbwriter.server" or "starlette" in found, "the probe sees nothing"


def test_a_server_loads_no_llama_cpp_before_an_engine() -> None:
    """A port answers at once, and one for an engine elsewhere never takes the second and the memory."""
    serve = "from srbwriter.cli import main\nmain(['--serve', '--port', '0'])"
    idle = "import srbwriter.server\nfrom srbwriter.engine import EngineLoader\n"
    idle += "srbwriter.server.run = lambda *_, **__: 0\nEngineLoader.start = lambda loader: loader\n"
    found = loaded_by(idle + serve)
    assert "starlette" in found and "llama_cpp" not in found


def test_dictionaries_of_words_are_loaded_for_scripts_without_spaces_only() -> None:
    prelude = "import sys; from srbwriter.prose import word_ends; from srbwriter.story.words import count; "
    latin = "word_ends('It’s a “dark” night — été'); count('他把门'); assert 'icu4py' not in sys.modules; "
    assert "icu4py" in loaded_by(f"{prelude}{latin}word_ends('他把门')")


def test_windows_is_told_of_wsl() -> None:
    script = "import sys; sys.platform = 'win32'; import srbwriter"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("ImportError: srbwriter runs on Linux and macOS.")
    assert "wsl --install" in run.stderr


def test_public_names_resolve() -> None:
    import srbwriter

    for name in srbwriter.__all__:
        assert getattr(srbwriter, name) is not None
    assert set(srbwriter.__all__) <= set(dir(srbwriter))
    with pytest.raises(AttributeError, match="Nothing"):
        _ = srbwriter.Nothing  # pyright: ignore


# ---- circles

PACKAGE = Path(srbwriter.__file__).parent


def module_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


STATEMENT = re.compile(r"^[ \t]*((?:from [\w.]+ import (?:\([^)]*\)|[^\n(]+))|(?:import [^\n]+))", re.M)


@lru_cache
def imports() -> dict[str, set[str]]:
    """The modules that each module imports, also for types only and within functions.

    The package itself is left out: it hands out public names of all rooms when they are asked for.
    """
    files = {module_of(file): file for file in PACKAGE.rglob("*.py")}
    known = files.keys() - {""}

    def named(module: str, file: Path) -> Iterator[str]:
        package = ["srbwriter", *filter(None, module.split("."))]
        if file.name != "__init__.py":
            package.pop()
        for statement in STATEMENT.findall(file.read_text("utf-8")):
            try:
                (node,) = ast.parse(statement).body
            except SyntaxError:  # a sentence that begins like one
                continue
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                for alias in node.names:
                    whole = f"{base}.{alias.name}"
                    yield whole if whole.removeprefix("srbwriter.") in known else base

    return {
        module: {name.removeprefix("srbwriter.") for name in named(module, files[module])} & known - {module}
        for module in known
    }


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Groups of modules of which each leads to each other."""

    def reached(start: str) -> set[str]:
        found, left = set[str](), [start]
        while left:
            for further in graph[left.pop()] - found:
                found.add(further)
                left.append(further)
        return found

    while True:  # what is in no circle goes first, so that few are left to look at
        ends = {module for module, others in graph.items() if not others & graph.keys()}
        if not ends:
            break
        graph = {module: others - ends for module, others in graph.items() if module not in ends}
    leads = {module: reached(module) for module in graph}
    return {
        frozenset(other for other in leads[module] if module in leads[other])
        for module in graph if module in leads[module]
    }  # fmt: skip


def test_modules_do_not_know_each_other_in_circles() -> None:
    assert not circles(imports())


def test_the_search_finds_a_circle_and_nothing_beside_it() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "end"}, "end": set[str](), "begin": {"a"}}
    assert circles(graph) == {frozenset("abc")}
    assert "tui.app" in imports()["tui.start"], "imports are not found"
