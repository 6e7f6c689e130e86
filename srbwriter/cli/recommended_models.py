"""``srbwriter models recommended``: the free model for this machine, how fast it would write, and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter import launch
from srbwriter.cli.columns import columns, document
from srbwriter.cli.exits import say

if TYPE_CHECKING:
    from srbwriter.config import Settings
    from srbwriter.models import Machine, RecommendedModel, Suitability

_NONE = """\
No free model of the list writes fast enough on this machine: the bundled one is the best here.
One on another machine can write for you: srbwriter --connect URL"""


def show(settings: Settings, as_json: bool) -> None:
    """Measure this machine, and print the model for it and the others, or JSON. Raises ModelError."""
    from srbwriter.models import read_recommended, recommend

    found = read_recommended()
    machine = launch.measure_machine(settings)
    best, others = recommend(found.models, machine)
    if as_json:
        rows = [_as_json(row) for row in ([best] if best else []) + others]
        name = best.model.name if best else None
        print(document({"date": found.date.isoformat(), "recommended": name, "models": rows}))
        return
    print(_NONE if best is None else f"{_recommendation(best)}\n  {_command(best.model)}")
    if others:
        titles = (
            "others" if best else "models",
            "kind",
            "size",
            "memory",
            "words/s",
            "alone",
            "here",
            "licence",
        )
        head, *lines = columns([titles, *map(_as_cells, others)], right=(2, 3, 4, 5)).splitlines()
        print(f"\n{head}")
        for line, row in zip(lines, others, strict=True):
            print(f"{line}\n  {_command(row.model)}")
    _explain(machine)
    say(f"as of {found.date}; --json names the page where each fact was confirmed")


def _recommendation(best: Suitability) -> str:
    from srbwriter.models import size_words

    fetched = "fetched" if best.model.is_here else f"{size_words(best.model.size or 0)} to fetch"
    return f"For this machine: {best.model.name}, {fetched}. It writes {best.speed} (an estimate)."


def _explain(machine: Machine) -> None:
    """Print what the figures mean."""
    from srbwriter.models import LEAST_WORDS, size_words

    if machine.pace is not None:
        each = f"in each of {machine.pace.branches} branches" if machine.pace.branches > 1 else "in a branch"
        say(f"words/s: {each}, an estimate from the speed of the bundled model, measured here just now")
        say(f"slow: below {LEAST_WORDS:.0f} words a second; fewer branches are faster, as with --n 2")
    gpus = "".join(f", {gpu.name} {size_words(gpu.free)} free" for gpu in machine.gpus)
    say(f"this machine has {size_words(machine.memory)} of memory{gpus}; models need theirs for eight panes")
    if not machine.gpus:
        say("no GPU is used here (`srbwriter doctor` says why), so models for one are not listed")


def _as_cells(row: Suitability) -> tuple[str, ...]:
    from srbwriter.models import size_words
    from srbwriter.models.speed import number_words

    model, speed = row.model, row.speed
    size, memory = (size_words(number) if number else "" for number in (model.size, model.memory))
    more = "+" * (speed is not None and speed.on_gpu)
    words, alone = (
        (f"{number_words(number)}{more}" for number in (speed.words, speed.alone)) if speed else ("", "")
    )
    here = "fetched" if model.is_here else row.verdict
    return model.name, model.kind, size, memory, words, alone, here, model.licence


def _command(model: RecommendedModel) -> str:
    return f"srbwriter models pull {model.pull_name} --use"


def _as_json(row: Suitability) -> dict[str, object]:
    model, speed = row.model, row.speed
    return {
        "name": model.name,
        "kind": model.kind,
        "machine": model.machine,
        "repository": model.repository,
        "file": model.file,
        "size": model.size,
        "licence": model.licence or None,
        "context": model.context,
        "memory": model.memory,
        "verdict": row.verdict,
        "words_per_second": round(speed.words, 1) if speed else None,
        "words_per_second_alone": round(speed.alone, 1) if speed else None,
        "branches": speed.branches if speed else None,
        "path": str(model.path) if model.is_here else None,
        "arrived": model.arrived,
        "note": model.note,
        "command": _command(model),
        "pages": dict(model.pages),
    }
