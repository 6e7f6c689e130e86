"""Changing the model: those of this machine, with what each will need. Only the session loads one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import launch
from srbwriter.models import local_models, memory, memory_budget, size_words
from srbwriter.tui.screens.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.models import LocalModel
    from srbwriter.tui.options import Preferences
    from srbwriter.tui.write_screen import WriteScreen


def choices(preferences: Preferences) -> list[Choice]:
    """Every model of this machine: the bundled one, the models folder, and the caches of other programs."""
    return [Choice(model.path, model.name, _about(model, preferences)) for model in local_models()]


def _about(model: LocalModel, preferences: Preferences) -> str:
    if model.header is None:
        return f"cannot be used: {model.problem}"
    need = launch.model_need(preferences, model.header, model.size)
    verdict = need.verdict(memory(), memory_budget())
    return f"{size_words(model.size)}, needs {size_words(need.total)} of memory: {verdict}; {model.place}"


def choose_model(screen: WriteScreen) -> None:
    """Let the writer choose, and load it while the story stays."""

    def chosen(file: Path | None) -> None:
        if file is not None:
            screen.guarded(lambda: screen.session.load_model(file))

    foot = "enter loads one for now · `srbwriter models` gets others and keeps one · esc goes back"
    screen.app.push_screen(Picker("Models", choices(screen.app.preferences), foot=foot), chosen)
