"""Whatever goes wrong ends in words and in a documented exit code."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from srbwriter import __version__, paths
from srbwriter.cli import app, commands
from srbwriter.cli.exits import Exit, Failure
from srbwriter.cli.table import every_key
from srbwriter.config.keys import SECTIONS
from srbwriter.engine.types import ContextOverflow, ModelError
from srbwriter.story import Story


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes the default command raise what it is given."""

    def fail_with(error: BaseException) -> None:
        def run_and_fail(arguments: object, settings: object) -> int:
            raise error

        monkeypatch.setattr(app, "run_app", run_and_fail)

    yield fail_with


@pytest.mark.parametrize("command", ["", *commands.COMMANDS])
def test_help_begins_with_examples(run: Any, command: str) -> None:
    """Only that of the program ends with the exit codes."""
    done = run(*filter(None, [command]), "--help")
    assert done.code == Exit.OK
    examples, _, rest = done.out.partition("options:")
    assert f"  srbwriter {command}" in examples
    assert all((f"{code.value:<4} {code.meaning}" in rest) is (not command) for code in Exit)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (Failure("no luck"), 1, "no luck"),
        (Failure("not so", Exit.USAGE), 2, "not so"),
        (ModelError("/a.gguf", "no such file", "look again"), 3, "/a.gguf: no such file — look again"),
        (ContextOverflow(900, 512), 1, "900 tokens"),
        (PermissionError(13, "Permission denied", "/x"), 1, "/x"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_each_failure_has_its_code_and_its_words(
    run: Any, failing: Any, error: BaseException, code: int, words: str
) -> None:
    failing(error)
    done = run()
    assert (done.code, done.out) == (code, "")
    assert words in done.err and "Traceback" not in done.err
    assert not list(paths.log_dir().glob("crash-*"))


def test_a_defect_leaves_a_report(run: Any, failing: Any) -> None:
    failing(ZeroDivisionError("by nothing"))
    done = run()
    (report,) = paths.log_dir().glob("crash-*")
    assert done.code == Exit.ERROR and str(report) in done.err and "Traceback" not in done.err
    assert "ZeroDivisionError: by nothing" in report.read_text("utf-8")
    assert "ZeroDivisionError" in paths.log_file().read_text("utf-8")


def test_everything_that_is_wrong_in_file_and_variables_is_said_in_one_go(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = paths.config_file()
    file.parent.mkdir(parents=True)
    file.write_text('[model]\nctx_sise = 4096\n[keys]\nkill = "nokey"\n')
    monkeypatch.setenv("SRBWRITER_N", "3")
    monkeypatch.setenv("SRBWRITER_GENERATION_N", "x")
    done = run("write", "Once")
    assert done.code == Exit.USAGE and not done.out
    assert done.err.splitlines() == [
        f"srbwriter: {file}:4: keys.kill = 'nokey': expected names of keys, such as x, ctrl+t, f5",
        "srbwriter: SRBWRITER_GENERATION_N = 'x': expected a whole number from 1 to 64",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("info", "are required: STORY"),
        ("write Once --n x --temprature 1", "--n/-n: 'x': expected a whole number from 1 to 64"),
        ("write Once --port 9", "unknown flag --port — `srbwriter write --help` shows"),
        ("search", "no story is called search"),
        ("search x", "no command is called search, and a title of several words needs quotes"),
        ("models use a b --measur", "'b' is one word too many"),
        ("backup create x", "ACTION: invalid choice: 'create' (choose from"),
        ("-m a.gguf write", "the command comes first: srbwriter write"),
        ("-m a.gguf write Once", "the command comes first: srbwriter write"),
        ("--serve story.srbw", "takes no story"),
        ("--theme nosuch", "there is no theme 'nosuch' — give one of contrast-dark, contrast-light"),
        ("write Once --config none.toml", "none.toml: there is no such file"),
    ],
)
def test_a_line_that_cannot_be_read_is_a_usage_error(run: Any, line: str, words: str) -> None:
    done = run(*line.split())
    assert done.code == Exit.USAGE and words in done.err


def test_the_reference_has_all_settings(run: Any) -> None:
    printed = run("settings").out
    assert printed.count("SRBWRITER_") == sum(len(every_key().section(section)) for section in SECTIONS)
    one = run("settings", "log").out
    assert one in printed and one.startswith('[log]  The log\n\nlevel = "info"    (one of debug, info,')
    assert run("settings", "logs").code == Exit.USAGE


def test_the_app_asks_for_a_terminal(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    done = run()
    assert done.code == Exit.ERROR and "needs a terminal" in done.err


def test_help_is_the_same_through_python_m() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "srbwriter", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"srbwriter {__version__}\n"


@pytest.mark.parametrize("line", ["--help", "export Long -o - --format text"])
def test_a_reader_that_has_read_enough_is_no_failure(tmp_path: Path, line: str) -> None:
    with Story.create(paths.library_dir() / "Long.srbw", "Long") as story:
        story.append("It rained. " * 20_000)
    command = [sys.executable, "-m", "srbwriter", *line.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None and program.stderr is not None
        program.stdout.close()  # before it has written anything
        assert (program.stderr.read(), program.wait()) == (b"", Exit.OK)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_output_that_finds_no_room_is_said() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "srbwriter", "list", "--json"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    words = b"No space left on device"
    assert done.returncode == Exit.ERROR and words in done.stderr and b"Exception" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_defect(closed: str) -> None:
    with Story.create(paths.library_dir() / "Long.srbw", "Long") as story:
        story.append("It rained.")
    line = f'"{sys.executable}" -m srbwriter list {closed}'
    done = subprocess.run(line, shell=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (Exit.OK, b"")
    assert not list(paths.log_dir().glob("crash-*"))
