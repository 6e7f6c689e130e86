"""The log goes to its file, faults to theirs, crashes to reports; none of it can stop the program."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter import logs, paths


@pytest.fixture(autouse=True)
def log_is_stopped() -> Iterator[None]:
    level = logging.getLogger().level
    yield
    logs.stop()
    logging.getLogger().setLevel(level)


def test_the_log_keeps_what_is_severe_enough() -> None:
    assert logs.start("warning") is None
    logging.getLogger("srbwriter.native").warning("a tensor is %s", "odd")
    logging.getLogger("srbwriter.native").info("nothing to see")
    text = paths.log_file().read_text("utf-8")
    assert "WARNING srbwriter.native: a tensor is odd" in text
    assert "nothing to see" not in text


def test_a_whole_line_stays_as_it_is() -> None:
    assert logs.start() is None
    logging.getLogger("srbwriter.server.access").info("%s", '{"status": 200}', extra={"whole": True})
    assert paths.log_file().read_text("utf-8").splitlines()[-1] == '{"status": 200}'


def test_a_folder_that_cannot_be_made_is_said_and_survived(home: Path) -> None:
    paths.state_dir().parent.mkdir(parents=True)
    paths.state_dir().write_text("a file where the folder should be")
    complaint = logs.start()
    assert complaint is not None and str(paths.log_file()) in complaint
    logging.getLogger("srbwriter").error("goes nowhere")
    assert logs.write_crash_report(ValueError()) is None


def test_a_crash_report_holds_the_stack(home: Path) -> None:
    try:
        raise ZeroDivisionError("by nothing")
    except ZeroDivisionError as error:
        report = logs.write_crash_report(error)
    assert report is not None and report.parent == paths.log_dir()
    text = report.read_text("utf-8")
    assert "ZeroDivisionError: by nothing" in text and "test_logs.py" in text


def test_a_native_crash_leaves_the_python_stack(home: Path) -> None:
    code = "from srbwriter import logs; logs.start(); import faulthandler; faulthandler._sigabrt()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=dict(os.environ))
    assert done.returncode != 0
    assert "Aborted" in logs.fault_file().read_text("utf-8")


def test_starting_again_does_not_write_twice() -> None:
    logs.start()
    logs.start()
    logging.getLogger("srbwriter").error("once")
    assert paths.log_file().read_text("utf-8").count("once") == 1
