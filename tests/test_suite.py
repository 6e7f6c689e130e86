"""The suite itself: it leaves the person's files alone, skips what cannot run, and one failure stays one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sizes import few_or_all

PROJECT = Path(__file__).parents[1]


def run_pytest(*arguments: object, **variables: str) -> str:
    """Return what pytest prints at the end; no cache is written."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, arguments)],
        cwd=PROJECT, env=inherited | variables, capture_output=True, text=True, timeout=1100,
    )  # fmt: skip
    return done.stdout + done.stderr


def files_below(folder: Path) -> dict[str, tuple[int, bytes]]:
    """When each file and folder was changed last, and what the files hold."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, b"" if path.is_dir() else path.read_bytes())
        for path in [folder, *folder.rglob("*")]
    }


# Each has a fixture of its module or of the run that starts a program, a server or a session.
SOME = ["server/test_router.py::test_the_model_chooses_the_server", "server/test_variety.py"]
WITH_PROGRAMS = [
    "server/test_page_instruments.py",
    "server/test_sillytavern.py::test_it_connects",
    "terminal/test_exploring.py",
]


@pytest.mark.slow
@few_or_all
@pytest.mark.full
def test_the_persons_home_is_neither_read_nor_written(full: bool, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config" / "srbwriter").mkdir(parents=True)
    (home / ".config" / "srbwriter" / "config.toml").write_text("no test may read this [")
    (home / "state").mkdir()
    before = files_below(home)
    said = run_pytest(
        *("-n", 1, "--full"),  # one worker, so that what a worker starts is seen as well
        *(PROJECT / "tests" / test for test in (WITH_PROGRAMS if full else SOME)),
        HOME=str(home),
        XDG_STATE_HOME=str(home / "state"),
        npm_config_cache=str(home / "npm"),
    )
    assert " passed" in said or " skipped" in said, said
    assert " failed" not in said and " error" not in said, said
    assert files_below(home) == before


OTHERS = """
import pytest

tries = []

@pytest.fixture(scope="module")
def hiccup():
    tries.append(1)
    if len(tries) == 1:
        pytest.fail("busy")

@pytest.fixture(scope="session")
def broken():
    raise OSError("gone")

@pytest.mark.parametrize("number", range(20))
def test_after_a_hiccup(hiccup, number):
    pass

@pytest.mark.parametrize("number", range(20))
def test_of_what_is_broken(broken, number):
    pass

def test_of_nothing_else():
    pass

@pytest.mark.needs("python-that-is-nowhere")
def test_with_a_program():
    pass

@pytest.mark.full
def test_a_marathon():
    pass
"""


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """A folder with tests of every kind, and with the fixtures of this suite."""
    shutil.copy(PROJECT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_others.py").write_text(OTHERS)
    return tmp_path


def of_others(folder: Path) -> list[object]:
    return ["-n", 0, "-c", PROJECT / "pyproject.toml", "--rootdir", folder, folder]


def test_a_fixture_that_fails_fails_alone(others: Path) -> None:
    said = run_pytest(*of_others(others))
    assert said.rstrip().splitlines()[-1].startswith("20 passed, 20 skipped, 3 errors"), said
    assert "[18] " in said and "the fixture 'broken' failed twice: see the errors" in said
    assert "not installed: python-that-is-nowhere" in said
    assert "takes minutes: run it with --full" in said


def test_no_program_is_started_while_tests_are_collected(others: Path) -> None:
    (others / "test_eager.py").write_text("import subprocess\nsubprocess.run(['true'])\n")
    said = run_pytest(*of_others(others), "--collect-only")
    assert "start it in a fixture" in said and "1 error" in said, said


@pytest.mark.slow
def test_a_mistyped_path_is_named(others: Path) -> None:
    said = run_pytest(*of_others(others)[2:-1], "-n", 1, others / "nothing")
    assert f"not found: {others / 'nothing'}" in said, said


LEAVING = """
import os, signal, tempfile

def test_of_what_is_left(tmp_path):
    (tmp_path / "a").touch()
    tempfile.mkdtemp()
    {end}
"""


@pytest.mark.slow
def test_a_run_leaves_no_files(others: Path) -> None:
    """Those of one that was killed are deleted by the next one."""
    top = others / "top"
    top.mkdir()
    for end, left in (
        ("assert False", 0),
        ("os.kill(os.getppid(), signal.SIGTERM)", 0),
        ("os.kill(os.getppid(), signal.SIGKILL)", 1),
        ("pass", 0),
    ):
        (others / "test_others.py").write_text(LEAVING.format(end=end))
        said = run_pytest(*of_others(others)[2:], "-n", 1, TMPDIR=str(top))
        assert len([*top.iterdir()]) == left, (end, said)
