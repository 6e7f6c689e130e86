"""Completions, asked of the shells themselves."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from srbwriter import cli, paths
from srbwriter.cli.commands import COMMANDS
from srbwriter.cli.completion import SHELLS
from tests.cli.stories import make

COMPLETE_IN_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_shtab_srbwriter "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completions")
    for shell in SHELLS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert cli.main(["completion", shell]) == 0
        (folder / shell).write_text(printed.getvalue(), "utf-8")
    return folder


def complete(scripts: Path, *words: str) -> set[str]:
    run = ["bash", "-c", COMPLETE_IN_BASH, "bash", str(scripts / "bash"), "srbwriter", *words]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where srbwriter is
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": path})
    assert not done.stderr
    return set(done.stdout.splitlines())


@pytest.mark.needs("bash")
def test_bash_completes_commands_flags_actions_and_values(scripts: Path) -> None:
    assert {*COMMANDS} <= complete(scripts, "")
    assert complete(scripts, "exp") == {"export"}
    assert "--format" in complete(scripts, "export", "--f")
    assert "use" in complete(scripts, "models", "u")
    assert complete(scripts, "--flash-attn", "o") == {"on", "off"}
    assert {"--temp", "--top-k"} <= complete(scripts, "write", "--t")
    assert "--serve" in complete(scripts, "--s")


@pytest.mark.needs("bash")
def test_bash_completes_titles_models_and_themes(scripts: Path) -> None:
    for title in ("The Orchard", "The Mill", "A day's end"):
        make(title)
    assert complete(scripts, "info", "The") == {r"The\ Orchard", r"The\ Mill"}
    mills = {str(paths.library_dir() / "The-Mill.srbw"), str(make("The Mill"))}
    assert complete(scripts, "info", "The") == {r"The\ Orchard"} and mills <= complete(scripts, "info", "/")
    assert complete(scripts, "backup", "make", r"The\ O") == {r"The\ Orchard"}
    assert complete(scripts, "A") == {r"A\ day\'s\ end"}
    assert complete(scripts, "models", "use", "") == complete(scripts, "--model", "story") == {"storyteller"}
    assert complete(scripts, "--theme", "mid") == {"midnight-ink"}


@pytest.mark.parametrize(
    ("shell", "check"), [pytest.param(shell, "-n", marks=pytest.mark.needs(shell)) for shell in SHELLS]
)
def test_the_shell_takes_the_script(scripts: Path, shell: str, check: str) -> None:
    done = subprocess.run([shell, check, str(scripts / shell)], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_another_shell_is_refused_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "basj"]) == 2
    assert "invalid choice: 'basj' (choose from" in capsys.readouterr().err
