"""What the terminal app costs, measured in a real terminal: processor time, delay of keys, first paint.

    python -m benchmarks.tui [--model 135m-q4_0] [--only stream keys …]

Each figure comes from a process of its own in a pseudo-terminal whose output is read and thrown away, as a
terminal would read it. The branches of ``stream`` are written by a fake engine at a fixed rate, so that only
the app is measured; ``writing`` has a model.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import fcntl
import json
import os
import pty
import select
import statistics
import struct
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.engine.setting import load_average, machine, model_path

COLUMNS, ROWS = 180, 50
PANES, RATE = 16, 30.0  # branches, and tokens a second of each
RARE = "ΩΨΞ"  # letters that no branch writes
BOOK = 2_000_000  # characters of the long story


@dataclass
class Child:
    """A program in a pseudo-terminal."""

    pid: int
    fd: int
    seen: bytes = b""

    @classmethod
    def start(cls, command: list[str], folder: Path) -> Child:
        pid, fd = pty.fork()
        if pid == 0:
            for name in ("CONFIG", "DATA", "STATE", "CACHE"):
                os.environ[f"XDG_{name}_HOME"] = str(folder / name.lower())
            for name in ("COLUMNS", "LINES", "SSH_CONNECTION", "NO_COLOR", "PYTHONDONTWRITEBYTECODE"):
                os.environ.pop(name, None)
            os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "pycache")  # the second start is measured
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, [sys.executable, *command])
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        return cls(pid, fd)

    def read(self, seconds: float) -> bytes:
        """What comes within so long; returns at the first piece."""
        ready, _, _ = select.select([self.fd], [], [], max(0.0, seconds))
        if not ready:
            return b""
        with contextlib.suppress(OSError):
            return os.read(self.fd, 1 << 16)
        return b""

    def until(self, words: bytes, seconds: float) -> float | None:
        """Seconds until ``words`` come; None if they do not."""
        began = time.perf_counter()
        tail = b""
        while (left := seconds - (time.perf_counter() - began)) > 0:
            tail = tail[-64:] + self.read(left)
            if words in tail:
                return time.perf_counter() - began
        return None

    def drain(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self.read(left)

    def send(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.send("\x11")
        end = time.perf_counter() + 10
        while time.perf_counter() < end:
            self.read(0.05)
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                break
        os.close(self.fd)


# ---- inside the child


def stand_in(report: Path, panes: int) -> None:
    """The app over branches that a thread writes at a fixed rate; leaves processor times in ``report``."""
    from srbwriter.cli.table import every_key
    from srbwriter.config import Settings
    from srbwriter.config.settings import Setting
    from srbwriter.tui import start
    from srbwriter.tui.app import App
    from tests.fakes.session import FakeSession

    session = FakeSession(report.parent, "It rained.", panes)
    session.stop = type(session.stop)(max_tokens=None)
    engine_time = [0.0]

    def write() -> None:
        while not session.closed:
            time.sleep(1 / RATE)
            session.engine.step()
            engine_time[0] = time.thread_time()
            report.write_text(json.dumps([time.perf_counter(), time.process_time(), engine_time[0]]))

    if panes:
        threading.Thread(target=write, daemon=True).start()
    with start.guarded():
        # Following the end is the dearest: every pane is painted for every word.
        settings = Settings(every_key(), {"interface.panes": Setting("end", "flag")})
        App(session, settings).run()  # type: ignore[arg-type]


@dataclass(frozen=True)
class Work:
    """What a model writes in as many panes. ``threads`` 0 leaves them to the engine."""

    model: str
    panes: int
    tokens: int
    threads: int


def model(report: Path, work: Work) -> None:
    """The app while a model writes one round after the other, until it is closed."""
    from srbwriter import launch
    from srbwriter.cli import table
    from srbwriter.config import Settings
    from srbwriter.config.settings import Setting
    from srbwriter.session import Session
    from srbwriter.tui import start
    from srbwriter.tui.app import App

    wanted: dict[str, object] = {
        "model.path": Path(work.model),
        "generation.n": work.panes,
        "generation.max_tokens": work.tokens,
        "generation.seed": 1,
    }
    if work.threads:
        wanted["model.threads"] = work.threads
    settings = Settings(table.every_key(), {name: Setting(value, "flag") for name, value in wanted.items()})
    loader = launch.loader(settings, start.BEHIND)
    session = Session.open(settings, report.parent / f"{report.stem}.srbw", loader)
    session.set_text("Once upon a time there was a girl who lived by a deep, dark wood.")
    session.loader.wait()
    session.stop = replace(session.stop, ignore_eog=True)

    def write() -> None:
        time.sleep(1.0)
        while True:
            report.write_text("")
            current = session.generate()
            while current.generation is None:  # the model is loaded, the session notices soon
                time.sleep(0.001)
            current.generation.wait(600)

    threading.Thread(target=write, daemon=True).start()
    with start.guarded():
        App(session, settings).run()


# ---- the figures


def child(*arguments: object) -> list[str]:
    return ["-m", "benchmarks.tui", "--child", *map(str, arguments)]


def streaming(seconds: float, keys: int, folder: Path) -> dict[str, float]:
    """Share of a core, and the delay of keys, while all panes stream."""
    report = folder / "stream.json"
    program = Child.start(child("stand-in", report, PANES), folder)
    assert program.until(b"write", 20) is not None, "the app did not start"
    program.drain(1.0)
    program.send("\x0e")
    program.drain(2.0)
    before = json.loads(report.read_text())
    program.drain(seconds)
    after = json.loads(report.read_text())
    wall, process, engine = (b - a for a, b in zip(before, after, strict=True))
    delays = key_delays(program, keys)
    program.close()
    return {"core share": (process - engine) / wall, **delays}


def key_delays(program: Child, keys: int) -> dict[str, float]:
    """Return the milliseconds from a key's byte to the byte that shows it, under full load."""
    delays: list[float] = []
    lost = 0
    for number in range(keys):
        letter = RARE[number % len(RARE)]
        program.drain(0.03)
        program.send(letter if number % 5 else f" {letter}")  # words: lines wrap as in prose
        delay = program.until(letter.encode(), 2.0)
        if delay is None:
            lost += 1
        else:
            delays.append(1000 * delay)
    delays.sort()
    return {
        "key p50 ms": statistics.median(delays),
        "key p99 ms": delays[min(len(delays) - 1, int(0.99 * len(delays)))],
        "keys lost": float(lost),
    }


def long_story(keys: int, folder: Path) -> dict[str, float]:
    """Measure the delay of keys in a story of two million characters, with the whole program."""
    from srbwriter.story import Story

    line = "The tide came in and nobody said a word about the lamp.\n\n"
    story = Story.create(folder / "book.srbw")
    story.append((line * (BOOK // len(line) + 1))[:BOOK])
    story.close()
    program = Child.start(["-m", "srbwriter", str(story.file)], folder)
    assert program.until(b"write", 60) is not None, "the app did not start"
    program.drain(6.0)
    delays = key_delays(program, keys)
    program.close()
    return delays


def first_paint(folder: Path) -> dict[str, float]:
    """Seconds from the program's start to its first screen."""
    times: list[float] = []
    for number in range(5):
        program = Child.start(["-m", "srbwriter", str(folder / f"paint{number}.srbw")], folder)
        painted = program.until(b"write", 30)
        assert painted is not None, "nothing was painted"
        times.append(painted)
        program.drain(1.5)
        program.send("\x1b")
        program.drain(0.5)
        program.close()
    return {"first paint s": statistics.median(times)}


def _until(report: Path, program: Child) -> None:
    """Read what the program paints until it has left a report."""
    end = time.perf_counter() + 600
    while not report.exists() and time.perf_counter() < end:
        program.read(0.2)


def writing(folder: Path, work: Work, keys: int) -> dict[str, float]:
    """The delay of keys while a model writes in every pane, on the same cores."""
    report = folder / "writing.json"
    program = Child.start(child("model", report, json.dumps(asdict(work))), folder)
    _until(report, program)
    program.drain(2.0)
    delays = key_delays(program, keys)
    program.close()
    return delays


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("stream", "long", "start", "writing"))
    parser.add_argument("--seconds", type=float, default=8.0, help="how long processor time is measured")
    parser.add_argument("--keys", type=int, default=150, help="keys whose delay is measured")
    parser.add_argument("--model", default="bundled", help="a file, bundled, or a shape such as 135m-q4_0")
    parser.add_argument("--models", type=Path, help="folder of made models")
    parser.add_argument("--panes", type=int, default=PANES, help="branches that the model writes")
    parser.add_argument("--tokens", type=int, default=100, help="tokens of each")
    parser.add_argument("--threads", type=int, default=0, help="of the engine (0: its own choice)")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parse(argv)
    if arguments.child:
        kind, report, *rest = arguments.child
        if kind == "stand-in":
            stand_in(Path(report), *map(int, rest))
        else:
            model(Path(report), Work(**json.loads(rest[0])))
        return
    file = model_path(arguments.model, arguments.models)
    work = Work(str(file), arguments.panes, arguments.tokens, arguments.threads)
    streams = f"{PANES} panes, {PANES * RATE:.0f} tok/s"
    writes = f"{file.name}, {work.panes} panes"
    figures: dict[str, tuple[str, Callable[[Path], dict[str, float]]]] = {
        "stream": (streams, lambda folder: streaming(arguments.seconds, arguments.keys, folder)),
        "long": (f"story of {BOOK / 1e6:g} MB", lambda folder: long_story(arguments.keys, folder)),
        "start": ("start", first_paint),
        "writing": (f"{writes}, keys", lambda folder: writing(folder, work, arguments.keys)),
    }
    print(f"{datetime.datetime.now():%Y-%m-%d %H:%M}, {machine()}, {load_average()}")
    for name in arguments.only or figures:
        title, figure = figures[name]
        with tempfile.TemporaryDirectory() as folder:
            values = {what: round(value, 3) for what, value in figure(Path(folder)).items()}
        print(title, json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
