"""``srbwriter models``: lists, adds, chooses and downloads models."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srbwriter import launch
from srbwriter.cli.columns import columns, document
from srbwriter.cli.exits import Exit, say
from srbwriter.cli.flags import add_actions
from srbwriter.config import Settings, Table, keys, remember
from srbwriter.paths import expanded

if TYPE_CHECKING:
    from srbwriter.models.pull import Progress
    from srbwriter.models.recommended import RecommendedModel


def models_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    actions = add_actions(parser)
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    used = actions("use", "write with a model from now on")
    used.add_argument("name", metavar="MODEL", help="a name of the list, or a file")
    actions("forget", "write with the bundled model again")
    actions("recommended", "name the free model for this machine, then others; no network is used")
    pulled = actions(
        "pull", "fetch a model from Hugging Face (a token in HF_TOKEN is sent) or from an address"
    )
    pulled.add_argument(
        "model", metavar="OWNER/REPO[:QUANT], OWNER/REPO/FILE or URL",
        help="the repository, and the quantisation (else Q4_K_M) or file; or the address of a file",
    )  # fmt: skip
    pulled.add_argument("--use", action="store_true", help="write with it from now on")


def run_models(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    List the models of this machine, choose one, and get others.

      srbwriter models                                     list them: size, context, memory
      srbwriter models use ~/Downloads/novelist.gguf       write with it from now on
      srbwriter models forget                              write with the bundled one again
      srbwriter models recommended                         the free model for this machine, and others
      srbwriter models pull ggml-org/gemma-3-1b-it-GGUF    fetch from Hugging Face
      srbwriter models pull OWNER/REPO:Q5_K_M --use        fetch this quantisation, and use it
      srbwriter models pull https://host/model.gguf        fetch this file
    """
    match arguments.action:
        case "use":
            from srbwriter.models import files, local

            path = expanded(arguments.name)
            file = path.absolute() if path.is_file() else local.find(arguments.name)
            files.read_header(file)
            _remember(file, settings)
        case "forget":
            _remember(None, settings)
        case "recommended":
            _recommended(settings)
        case "pull":
            _pull(arguments, settings)
        case _:
            _list(settings, as_json=arguments.json)
    return Exit.OK


def _list(settings: Settings, *, as_json: bool) -> None:
    from srbwriter.models.fit import free_memory, memory, size_words
    from srbwriter.models.local import local_models

    total, free = memory(), free_memory()
    in_use = launch.model_path(settings).resolve()
    if not in_use.exists():
        say(f"{in_use}: no such file — srbwriter models use NAME, or srbwriter models forget")
    rows: list[dict[str, Any]] = []
    for model in local_models():
        header, need = model.header, launch.model_need(settings, model.header, model.size)
        rows.append({
            "name": model.name,
            "path": str(model.path),
            "place": model.place,
            "size": model.size,
            "context": header.context if header else 0,
            "memory": need.total if header else None,
            "verdict": need.verdict(total) if header else "unusable",
            "in_use": model.path.resolve() == in_use,
            "problem": model.problem,
        })  # fmt: skip
    if as_json:
        print(document(rows))
        return
    table = [("", "name", "size", "context", "memory", "here", "from")]
    for row in rows:
        size, needed = (size_words(row[name]) if row[name] else "" for name in ("size", "memory"))
        context, mark = str(row["context"] or ""), "*" * row["in_use"]
        table.append((mark, row["name"], size, context, needed, row["verdict"], row["place"]))
        if row["problem"]:
            say(f"{row['path']}: {row['problem']}")
    print(columns(table, right=(2, 3, 4)))
    say(f"this machine has {size_words(total)} of memory, {size_words(free)} free; in use (*) is {in_use}")


def _remember(file: Path | None, settings: Settings) -> None:
    """Write with a file or the bundled model from now on, and say what overrules that."""
    from srbwriter.demo import bundled_model

    bundled = file is None or file == bundled_model()
    remember(settings.table, {keys.MODEL: None if file is None or bundled else file.absolute()})
    say(f"srbwriter now writes with {'the bundled model' if bundled else file}")
    if (source := settings.source(keys.MODEL)) in ("environment", "file"):
        place = keys.MODEL.env if source == "environment" else f"{keys.MODEL.name} in your config.toml"
        say(f"but {place} says {settings[keys.MODEL]}, and that wins")


def _pull(arguments: argparse.Namespace, settings: Settings) -> None:
    file = fetch(arguments.model)
    print(file)
    if arguments.use:
        _remember(file, settings)
    else:
        say(f"to write with it: srbwriter models use {file.name}")


def fetch(name: str) -> Path:
    """Fetch a model unless it is here; return its file. Raises ModelsError."""
    from srbwriter.models import pull

    with progress_shown() as progress:
        return pull.fetch(name, progress)


@contextlib.contextmanager
def progress_shown() -> Generator[Progress]:
    """Show download progress on standard error: a bar on a terminal, else a line at the end."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TaskID, TimeRemainingColumn, TransferSpeedColumn

    looks = "{task.description}", DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    console = Console(stderr=True, markup=False)
    tasks: dict[str, TaskID] = {}
    with Progress(*looks, console=console, disable=not console.is_terminal) as bars:

        def progress(name: str, done: int, total: int, /) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name)
            bars.update(tasks[name], completed=done, total=total or None)
            if done == total and not console.is_terminal:
                say(f"{name}: 100 %")

        try:
            yield progress
        except KeyboardInterrupt:
            say("the downloaded part is kept; the same command continues from there")
            raise


# ---- recommended

_NONE = """\
No free model of the list writes fast enough on this machine: the bundled one is the best here.
One on another machine can write for you: srbwriter --connect URL"""


def _recommended(settings: Settings) -> None:
    """Print the model for this machine and the others, each with the command that fetches it."""
    from srbwriter.models.fit import size_words
    from srbwriter.models.recommended import read_recommended, recommend

    found, machine = read_recommended(), launch.this_machine(settings)
    best, others = recommend(found.models, machine)
    if best is None:
        print(_NONE)
    else:
        here = "fetched" if best.model.path.exists() else f"{size_words(best.model.size or 0)} to fetch"
        print(f"For this machine: {best.model.name}, {here}.\n  {_command(best.model)}")
    for model, verdict in others:
        sizes = f"{size_words(model.size or 0)}, needs {size_words(model.memory or 0)} of memory"
        here = "fetched" if model.path.exists() else verdict
        print(f"\n{model.name} ({here}): {model.kind}, {sizes}, {model.licence}\n  {_command(model)}")
    gpus = "".join(f", {gpu.name} {size_words(gpu.free)} free" for gpu in machine.gpus) or ", no GPU is used"
    say(f"this machine has {size_words(machine.memory)} of memory{gpus}; models need theirs for eight panes")
    say(f"slow is below three words a second in each of eight branches; the facts are as of {found.date}")


def _command(model: RecommendedModel) -> str:
    return f"srbwriter models pull {model.pull_name} --use"
