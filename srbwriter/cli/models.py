"""``srbwriter models``: lists, adds, chooses and downloads models."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import launch
from srbwriter.cli.columns import columns, document
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.flags import add_actions, add_keys
from srbwriter.config import Settings, Table
from srbwriter.paths import expanded

if TYPE_CHECKING:
    from srbwriter.models import LocalModel
    from srbwriter.models.pull import Plan, Progress

DESCRIPTION = """\
List the models of this machine, choose one, and get others.

  srbwriter models                                     list them: size, context, memory
  srbwriter models add ~/Downloads/novelist.gguf       copy a file into the models folder
  srbwriter models info novelist                       what it can do, and what memory it takes
  srbwriter models use novelist                        write with it from now on
  srbwriter models forget                              write with the bundled one again
  srbwriter models recommended                         the free model for this machine, and others
  srbwriter models pull ggml-org/gemma-3-1b-it-GGUF    fetch from Hugging Face what suits this machine
  srbwriter models pull OWNER/REPO:Q4_K_M --use        fetch this quantisation, and use it"""

KEPT = "the downloaded part is kept; the same command continues from there"


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    actions = add_actions(parser)
    listed = actions("list", "list the models of this machine (what happens when no action is named)")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    again = argparse.SUPPRESS  # do not overwrite a flag that was given before the action
    listed.add_argument("--json", action="store_true", default=again, help="print the list as JSON")
    shown = actions(
        "info",
        "print the properties of a model",
    )
    shown.add_argument("name", metavar="NAME", nargs="?", help="a name of the list, or a file")
    shown.add_argument("--json", action="store_true", default=again, help="print it as JSON")
    add_keys(shown, table, ("model",))
    added = actions("add", "put a model file into the models folder")
    added.add_argument("file", metavar="FILE", type=Path, help="a GGUF file; parts of it come along")
    added.add_argument("--link", action="store_true", help="leave the file where it is and link to it")
    used = actions("use", "write with a model from now on")
    used.add_argument("name", metavar="NAME", help="a name of the list, or a file")
    actions("forget", "write with the bundled model again")
    recommended = actions(
        "recommended",
        "name the free model for this machine and how fast it would write, then others",
        "The list comes with the program, and the speed is measured in a second; no network is used.",
    )
    recommended.add_argument("--json", action="store_true", default=again, help="print the list as JSON")
    pulled = actions(
        "pull",
        "fetch a model from Hugging Face",
        "The token in HF_TOKEN is sent if set; HF_ENDPOINT can name another hub.",
    )
    pulled.add_argument(
        "model",
        metavar="OWNER/REPO[:QUANT or FILE]",
        nargs="?",
        help="the repository, and the quantisation or file",
    )
    pulled.add_argument("--list", action="store_true", help="list the files, and fetch nothing")
    for target in (added, pulled):
        target.add_argument("--use", action="store_true", help="write with it from now on")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    actions: dict[str, Callable[[argparse.Namespace, Settings], None]] = {
        "list": _list, "info": _info, "add": _add, "use": _use, "forget": _forget, "pull": _pull,
        "recommended": _recommended,
    }  # fmt: skip
    actions[arguments.action or "list"](arguments, settings)
    return Exit.OK


# ---- list


def _list(arguments: argparse.Namespace, settings: Settings) -> None:
    from srbwriter.models import local_models, memory, memory_budget, size_words
    from srbwriter.models.fit import free_memory
    from srbwriter.models.placement import HOST_SHARE

    found, memory_bytes, free = local_models(), memory(), free_memory()
    budget = min(memory_budget(), int(free * HOST_SHARE))
    in_use = _in_use(settings)
    rows = [_Row(model, settings, memory_bytes, budget, in_use) for model in found]
    if arguments.json:
        print(document([row.as_json() for row in rows]))
        return
    titles = ("", "name", "size", "context", "memory", "here", "from")
    print(columns([titles, *(row.as_cells() for row in rows)], right=(2, 3, 4)))
    for row in rows:
        if row.model.problem:
            say(f"{row.model.path}: {row.model.problem}")
    say(f"* is in use; this machine has {size_words(memory_bytes)} of memory, {size_words(free)} free")
    if in_use is not None and not any(row.in_use for row in rows):
        say(f"in use is {in_use}")


class _Row:
    """A row of the list: a model, its memory need and whether it fits."""

    def __init__(
        self, model: LocalModel, settings: Settings, memory: int, budget: int, in_use: Path | None
    ) -> None:
        need = launch.model_need(settings, model.header, model.size)
        self.model = model
        self.memory = need.total if model.header else None
        self.verdict = need.verdict(memory, budget) if model.header else "unusable"
        self.in_use = in_use is not None and in_use.resolve() == model.path.resolve()

    def as_cells(self) -> tuple[str, ...]:
        from srbwriter.models import size_words

        model = self.model
        context = str(model.header.context or "") if model.header else ""
        needed = size_words(self.memory) if self.memory is not None else ""
        mark = "*" if self.in_use else ""
        return mark, model.name, size_words(model.size), context, needed, self.verdict, model.place

    def as_json(self) -> dict[str, object]:
        model, header = self.model, self.model.header
        return {
            "name": model.name,
            "path": str(model.path),
            "place": model.place,
            "size": model.size,
            "quantisation": model.quantisation,
            "architecture": header.architecture if header else "",
            "context": header.context if header else 0,
            "memory": self.memory,
            "verdict": self.verdict,
            "in_use": self.in_use,
            "problem": model.problem,
        }


def _in_use(settings: Settings) -> Path | None:
    from srbwriter.config import ConfigError
    from srbwriter.engine.types import ModelError

    try:
        if (error := launch.missing_model(settings)) is not None:
            raise error
        return launch.model_path(settings)
    except (ModelError, ConfigError) as error:
        say(str(error))
        return None


# ---- info


def _info(arguments: argparse.Namespace, settings: Settings) -> None:
    from srbwriter.cli.model_info import show

    name = arguments.name
    if name is None and launch.elsewhere(settings):
        _connection(settings)
        return
    if name is None and (error := launch.missing_model(settings)) is not None:
        raise error
    file = launch.model_path(settings) if name is None else _named(name)
    show(file, settings, as_json=arguments.json)


def _connection(settings: Settings) -> None:
    """Print the capabilities of the remote engine."""
    from srbwriter.engine.remote.engine import RemoteEngine

    with RemoteEngine.connect(launch.remote_options(settings, say)) as engine:
        print("\n".join(engine.profile.lines()))


def _named(name: str) -> Path:
    """Return the file with this path, the only model in this folder, or the model with this name.

    Raises ModelError and NoSuchModel.
    """
    from srbwriter.models import find

    path = expanded(name)
    if path.is_dir() and "/" in name:
        path = launch.only_model(path)
    return path.absolute() if path.is_file() else find(name)


# ---- add, use, forget


def _add(arguments: argparse.Namespace, settings: Settings) -> None:
    from srbwriter.models import add

    _added(add(expanded(arguments.file), link=arguments.link), arguments, settings)


def _added(file: Path, arguments: argparse.Namespace, settings: Settings) -> None:
    """Print the path of a new model to standard output, and use the model if ``--use`` was given."""
    print(file)
    if arguments.use:
        _remember(file, settings)
    else:
        say(f"to write with it: srbwriter models use {file.name}")


def _use(arguments: argparse.Namespace, settings: Settings) -> None:
    from srbwriter.demo import bundled_model
    from srbwriter.models import read_header

    file = _named(arguments.name)
    read_header(file)
    if file == bundled_model():
        _forget(arguments, settings)
        return
    _remember(file, settings)


def _remember(file: Path, settings: Settings) -> None:
    launch.remember_model(settings.table, file.absolute())
    say(f"srbwriter now writes with {file}")
    _warn_if_overruled(settings)


def _forget(arguments: argparse.Namespace, settings: Settings) -> None:
    launch.remember_model(settings.table, None)
    say("srbwriter now writes with the bundled model")
    _warn_if_overruled(settings)


def _warn_if_overruled(settings: Settings) -> None:
    key = launch.model_key(settings)
    if key is not None and (source := settings.source(key)) in ("environment", "file"):
        place = key.env if source == "environment" else f"{key.name} in your config.toml"
        say(f"but {place} says {settings[key]}, and that wins")


# ---- recommended, pull


def _recommended(arguments: argparse.Namespace, settings: Settings) -> None:
    from srbwriter.cli.recommended_models import show

    show(settings, arguments.json)


def _pull(arguments: argparse.Namespace, settings: Settings) -> None:
    from srbwriter.models import Wanted, pull, size_words

    if arguments.model is None:
        raise Failure(
            "name the repository to fetch from, OWNER/REPO — `srbwriter models recommended` lists some",
            Exit.USAGE,
        )
    plan = pull.plan(Wanted.parse(arguments.model), lambda header: launch.model_run(settings, header))
    if arguments.list:
        _print_plan(plan)
        return
    model = plan.model
    say(f"{model.path}: {size_words(model.size)}, needs about {size_words(plan.need)} of memory")
    if (advice := _advice(plan)) is not None:
        say(advice)
    with progress_shown() as progress:
        file = pull.fetch(plan, progress)
    _added(file, arguments, settings)


def _print_plan(plan: Plan) -> None:
    from srbwriter.models import size_words

    rows = [("", "quantisation", "size", "memory", "file")]
    for index, (model, need) in enumerate(zip(plan.models, plan.needs, strict=True)):
        mark = "*" if index == plan.suggested else ""
        rows.append((mark, model.quantisation, size_words(model.size), size_words(need), model.path))
    print(columns(rows, right=(2, 3)))
    say("* suits this machine")


def _advice(plan: Plan) -> str | None:
    """Return advice if the chosen file does not fit, or another would fit better."""
    from srbwriter.models import memory, memory_budget, size_words

    suggested = plan.models[plan.suggested]
    if plan.need <= memory_budget():
        return None
    here = f"this machine has {size_words(memory())}"
    if plan.suggested == plan.chosen or plan.needs[plan.suggested] > memory_budget():
        return f"{here}, so none of this repository fits well; a smaller model would be faster"
    return f"{here}; {suggested.quantisation or suggested.path} would fit"


def fetch_named_model(settings: Settings) -> None:
    """Fetch the model named by ``--hf-repo`` or ``--model-url``, unless it is here or another model is in
    use."""
    if launch.model_key(settings) in launch.REMOTE_KEYS and not launch.elsewhere(settings):
        with progress_shown() as progress:
            launch.fetch_model(settings, progress)


@contextlib.contextmanager
def progress_shown() -> Generator[Progress]:
    """Show download progress on standard error: a bar on a terminal, else a line every ten percent."""
    try:
        with _bar() if sys.stderr.isatty() else contextlib.nullcontext(_Lines()) as progress:
            yield progress
    except KeyboardInterrupt:
        say(KEPT)
        raise


@contextlib.contextmanager
def _bar() -> Generator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TextColumn
    from rich.progress import Progress as Bars

    from srbwriter.models import TransferMeter

    looks = TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[moment]}")
    with Bars(*looks, console=Console(stderr=True)) as bars:
        tasks: dict[str, tuple[TaskID, TransferMeter]] = {}

        def progress(name: str, done: int, total: int, /) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total or None, moment=""), TransferMeter()
            task, meter = tasks[name]
            bars.update(task, completed=done, moment=str(meter.record(done, total, time.monotonic())))

        yield progress


class _Lines:
    """Progress as lines, for logs and pipes."""

    def __init__(self) -> None:
        from srbwriter.models import TransferMeter

        self._said: dict[str, int] = {}
        self._meters = defaultdict[str, TransferMeter](TransferMeter)

    def __call__(self, name: str, done: int, total: int, /) -> None:
        moment = self._meters[name].record(done, total, time.monotonic())
        tenth = 10 * done // total if total else 0
        if tenth > self._said.get(name, -1):
            self._said[name] = tenth
            say(f"{name}: {10 * tenth} % ({moment})")
