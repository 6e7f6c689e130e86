"""What each room may load, asked of fresh interpreters: start-up stays fast and rooms stay apart."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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


def command_line(*arguments: str) -> str:
    return f"from srbwriter.cli import main; main({list(arguments)!r})"


@pytest.mark.parametrize(
    "code",
    [
        "import srbwriter",
        "import srbwriter.engine.types",
        "import srbwriter.engine.parameters",
        "import srbwriter.config, srbwriter.launch, srbwriter.logs, srbwriter.demo",
        command_line("--help"),
        command_line("--version"),
        command_line("write", "--help"),
        command_line("--no-such-flag"),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str) -> None:
    assert not loaded_by(code) & HEAVY


@pytest.mark.parametrize(
    ("module", "strangers"),
    [
        ("srbwriter.engine", HEAVY - {"llama_cpp", "numpy"}),
        ("srbwriter.engine.remote.engine", HEAVY - {"rich"}),  # which httpx loads where it finds it
        ("srbwriter.server", {"textual", "rich"}),
        ("srbwriter.tui", {"fastapi", "starlette", "uvicorn"}),
    ],
)
def test_a_room_loads_nothing_of_its_siblings(module: str, strangers: set[str]) -> None:
    assert not loaded_by(f"import {module}") & strangers


def test_dictionaries_of_words_are_loaded_for_scripts_without_spaces_only() -> None:
    prelude = "from srbwriter.prose import word_ends; from srbwriter.story.words import count; "
    assert "icu4py" not in loaded_by(prelude + "word_ends('It’s a “dark” night — été'); count('他把门')")
    assert "icu4py" in loaded_by(prelude + "word_ends('他把门')")


def test_the_probe_sees_what_is_loaded() -> None:
    assert "llama_cpp" in loaded_by("import srbwriter.engine.native.library")


def test_public_names_resolve() -> None:
    import srbwriter

    for name in srbwriter.__all__:
        assert getattr(srbwriter, name) is not None
    assert set(srbwriter.__all__) <= set(dir(srbwriter))
    with pytest.raises(AttributeError, match="Nothing"):
        _ = srbwriter.Nothing  # pyright: ignore
