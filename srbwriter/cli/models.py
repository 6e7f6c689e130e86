"""``srbwriter models``: lists, adds, chooses and downloads models."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srbwriter import launch
from srbwriter.cli.columns import columns, document
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.flags import add_actions
from srbwriter.config import ConfigError, Settings, Table
from srbwriter.paths import expanded

if TYPE_CHECKING:
    from srbwriter.models import RecommendedModel, Suitability
    from srbwriter.models.pull import Progress


def models_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    actions = add_actions(parser)
    parser.set_defaults(json=False)
    listed = actions("list", "list the models of this machine (what happens when no action is named)")
    used = actions("use", "write with a model from now on")
    used.add_argument("name", metavar="NAME", help="a name of the list, or a file")
    actions("forget", "write with the bundled model again")
    recommended = actions(
        "recommended",
        "name the free model for this machine and how fast it would write, then others",
        "The list comes with the program, and the speed is measured in a second; no network is used.",
    )
    pulled = actions(
        "pull",
        "fetch a model from Hugging Face",
        "The token in HF_TOKEN is sent if set; HF_ENDPOINT can name another hub.",
    )
    pulled.add_argument(
        "model", metavar="OWNER/REPO[:QUANT or FILE]", nargs="?",
        help="the repository, and the quantisation or file",
    )  # fmt: skip
    pulled.add_argument("--list", action="store_true", help="list the files, and fetch nothing")
    for target in (parser, listed, recommended):  # a flag before the action holds too
        target.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print it as JSON")
    pulled.add_argument("--use", action="store_true", help="write with it from now on")


def run_models(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    List the models of this machine, choose one, and get others.

      srbwriter models                                     list them: size, context, memory
      srbwriter models use ~/Downloads/novelist.gguf       write with it from now on
      srbwriter models forget                              write with the bundled one again
      srbwriter models recommended                         the free model for this machine, and others
      srbwriter models pull ggml-org/gemma-3-1b-it-GGUF    fetch from Hugging Face what suits this machine
      srbwriter models pull OWNER/REPO:Q4_K_M --use        fetch this quantisation, and use it
    """
    match arguments.action:
        case "use":
            from srbwriter.models import read_header

            file = _named(arguments.name)
            read_header(file)
            _remember(file, settings)
        case "forget":
            _remember(None, settings)
        case "recommended":
            _recommended(settings, as_json=arguments.json)
        case "pull":
            _pull(arguments, settings)
        case _:
            _list(settings, as_json=arguments.json)
    return Exit.OK


def _list(settings: Settings, *, as_json: bool) -> None:
    from srbwriter.engine.types import ModelError
    from srbwriter.models import fit, local_models, size_words

    memory, free, in_use = fit.memory(), fit.free_memory(), None
    budget = min(fit.memory_budget(), int(free * fit.HOST_SHARE))
    try:
        if (error := launch.missing_model(settings)) is not None:
            raise error
        in_use = launch.model_path(settings).resolve()
    except (ModelError, ConfigError) as error:
        say(str(error))
    rows: list[dict[str, Any]] = []
    table = [("", "name", "size", "context", "memory", "here", "from")]
    for model in local_models():
        header, need = model.header, launch.model_need(settings, model.header, model.size)
        verdict = need.verdict(memory, budget) if header else "unusable"
        used = model.path.resolve() == in_use
        rows.append({
            "name": model.name,
            "path": str(model.path),
            "place": model.place,
            "size": model.size,
            "quantisation": model.quantisation,
            "architecture": header.architecture if header else "",
            "context": header.context if header else 0,
            "memory": need.total if header else None,
            "verdict": verdict,
            "in_use": used,
            "problem": model.problem,
        })  # fmt: skip
        context, needed = (str(header.context or ""), size_words(need.total)) if header else ("", "")
        mark, size = "*" * used, size_words(model.size)
        table.append((mark, model.name, size, context, needed, verdict, model.place))
    if as_json:
        print(document(rows))
        return
    print(columns(table, right=(2, 3, 4)))
    for row in rows:
        if row["problem"]:
            say(f"{row['path']}: {row['problem']}")
    say(f"* is in use; this machine has {size_words(memory)} of memory, {size_words(free)} free")
    if in_use is not None and not any(row["in_use"] for row in rows):
        say(f"in use is {in_use}")


def _named(name: str) -> Path:
    """Return the file with this path, the only model in this folder, or the model with this name.

    Raises ModelError and ModelsError.
    """
    from srbwriter.models import find

    path = expanded(name)
    if path.is_dir() and "/" in name:
        path = launch.only_model(path)
    return path.absolute() if path.is_file() else find(name)


def _remember(file: Path | None, settings: Settings) -> None:
    """Write with a file or the bundled model from now on, and say what overrules that."""
    from srbwriter.demo import bundled_model

    bundled = file is None or file == bundled_model()
    launch.remember_model(settings.table, None if file is None or bundled else file.absolute())
    say(f"srbwriter now writes with {'the bundled model' if bundled else file}")
    key = launch.model_key(settings)
    if key is not None and (source := settings.source(key)) in ("environment", "file"):
        place = key.env if source == "environment" else f"{key.name} in your config.toml"
        say(f"but {place} says {settings[key]}, and that wins")


def _pull(arguments: argparse.Namespace, settings: Settings) -> None:
    from srbwriter.models import Wanted, memory, memory_budget, pull, size_words

    if arguments.model is None:
        cure = "`srbwriter models recommended` lists some"
        raise Failure(f"name the repository to fetch from, OWNER/REPO — {cure}", Exit.USAGE)
    plan = pull.plan(Wanted.parse(arguments.model), lambda header: launch.model_run(settings, header))
    model, suggested = plan.model, plan.suggested
    if arguments.list:
        rows = [("", "quantisation", "size", "memory", "file")]
        for one in plan.models:
            mark = "*" if one is suggested else ""
            rows.append((mark, one.quantisation, size_words(one.size), size_words(one.need), one.path))
        print(columns(rows, right=(2, 3)))
        say("* suits this machine")
        return
    say(f"{model.path}: {size_words(model.size)}, needs about {size_words(model.need)} of memory")
    if model.need > memory_budget():
        advice = "none of this repository fits well; a smaller model would be faster"
        if suggested.need <= memory_budget():
            advice = f"{suggested.quantisation or suggested.path} would fit"
        say(f"this machine has {size_words(memory())}; {advice}")
    with progress_shown() as progress:
        file = pull.fetch(plan, progress)
    print(file)
    if arguments.use:
        _remember(file, settings)
    else:
        say(f"to write with it: srbwriter models use {file.name}")


def fetch_named_model(settings: Settings) -> None:
    """Fetch the model that ``--hf-repo`` or ``--model-url`` names, if it is to be used and is not here."""
    if launch.model_key(settings) in launch.REMOTE_KEYS and not launch.elsewhere(settings):
        with progress_shown() as progress:
            launch.fetch_model(settings, progress)


@contextlib.contextmanager
def progress_shown() -> Generator[Progress]:
    """Show download progress on standard error: a bar on a terminal, else a line every ten percent."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TaskID, TimeRemainingColumn, TransferSpeedColumn

    on_terminal = sys.stderr.isatty()
    looks = "{task.description}", DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    tasks: dict[str, TaskID] = {}
    tenths: dict[str, int] = {}
    with Progress(*looks, console=Console(stderr=True, markup=False), disable=not on_terminal) as bars:

        def progress(name: str, done: int, total: int, /) -> None:
            task = tasks[name] if name in tasks else tasks.setdefault(name, bars.add_task(name))
            bars.update(task, completed=done, total=total or None)
            if total and not on_terminal and (tenth := 10 * done // total) > tenths.get(name, -1):
                tenths[name] = tenth
                say(f"{name}: {10 * tenth} %")

        try:
            yield progress
        except KeyboardInterrupt:
            say("the downloaded part is kept; the same command continues from there")
            raise


# ---- recommended

_NONE = """\
No free model of the list writes fast enough on this machine: the bundled one is the best here.
One on another machine can write for you: srbwriter --connect URL"""


def _recommended(settings: Settings, *, as_json: bool) -> None:
    """Print the model for this machine and the others, or JSON."""
    from srbwriter.models import read_recommended, recommend, size_words

    found, machine = read_recommended(), launch.this_machine(settings)
    best, others = recommend(found.models, machine)
    if as_json:
        rows = [_as_json(row) for row in [*([best] if best else []), *others]]
        name = best.model.name if best else None
        print(document({"date": found.date.isoformat(), "recommended": name, "models": rows}))
        return
    if best is None:
        print(_NONE)
    else:
        here = "fetched" if best.model.is_here else f"{size_words(best.model.size or 0)} to fetch"
        print(f"For this machine: {best.model.name}, {here}.")
        print(f"  {_command(best.model)}")
    if others:
        first = "others" if best else "models"
        cells: list[tuple[str, ...]] = [(first, "kind", "size", "memory", "here", "licence")]
        for model, verdict in others:
            size, memory = (size_words(number) if number else "" for number in (model.size, model.memory))
            here = "fetched" if model.is_here else verdict
            cells.append((model.name, model.kind, size, memory, here, model.licence))
        head, *lines = columns(cells, right=(2, 3)).splitlines()
        print(f"\n{head}")
        for line, row in zip(lines, others, strict=True):
            print(f"{line}\n  {_command(row.model)}")
    if any(row.verdict == "slow" for row in others):
        say("slow: fewer than three words a second in each of eight branches; --n 2 is faster")
    gpus = "".join(f", {gpu.name} {size_words(gpu.free)} free" for gpu in machine.gpus)
    say(f"this machine has {size_words(machine.memory)} of memory{gpus}; models need theirs for eight panes")
    if not machine.gpus:
        say("no GPU is used here (`srbwriter doctor` says why), so models for one are not listed")
    say(f"as of {found.date}; --json names the page where each fact was confirmed")


def _command(model: RecommendedModel) -> str:
    return f"srbwriter models pull {model.pull_name} --use"


def _as_json(row: Suitability) -> dict[str, object]:
    model = row.model
    names = ("name", "kind", "machine", "repository", "file", "size", "context", "memory", "arrived", "note")
    return {
        **{name: getattr(model, name) for name in names},
        "licence": model.licence or None,
        "verdict": row.verdict,
        "path": str(model.path) if model.is_here else None,
        "command": _command(model),
        "pages": dict(model.pages),
    }
