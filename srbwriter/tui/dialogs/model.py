"""The list of models to choose from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import launch
from srbwriter.models.fit import memory, size_words
from srbwriter.models.local import local_models
from srbwriter.models.recommended import Machine, RecommendedModel, Suitability, read_recommended, recommend
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.write.notices import trouble_words

if TYPE_CHECKING:
    from srbwriter.models.local import LocalModel
    from srbwriter.tui.model_fetch import ModelFetch
    from srbwriter.tui.options import Preferences
    from srbwriter.tui.write.screen import WriteScreen

_AGAIN = "again"  # the entry that loads a model once more


async def choose_model(screen: WriteScreen) -> None:
    """Let the writer load a local model, fetch a recommended one, or try one again that does not load."""
    session, app = screen.session, screen.app
    failed = session.engine_error is not None and session.engine_state == "FAILED"
    title = f"{trouble_words(session.engine_error)}\n{session.engine_error}" if failed else "Models"
    value = await app.ask(ModelPicker(app.preferences, app.fetch, title, failed))
    if value == _AGAIN:
        session.load_again()
    elif isinstance(value, Path):
        session.load_model(value)
    elif isinstance(value, RecommendedModel):
        if app.fetch.model is None:
            screen.attend(app.fetch.run(app, value), app)
        elif app.fetch.model == value:
            app.fetch.cancel()
        else:
            name = app.fetch.model.name
            screen.notify(f"{name} is being fetched. Wait for it, or choose it in the list to stop it.")


class ModelPicker(Picker):
    """All local models, then recommended ones that fit and are not here yet: the one for this machine first,
    those that would be slow last. Those for GPUs follow once these are known."""

    def __init__(self, preferences: Preferences, fetch: ModelFetch, title: str, failed: bool) -> None:
        self._preferences, self._fetch, self._failed = preferences, fetch, failed
        title += "\nOne of yours is loaded for now; another is fetched and kept."
        super().__init__(title, self._choices_on(Machine(memory())))

    def _choices_on(self, machine: Machine) -> list[Choice]:
        found = [Choice(_AGAIN, "Try again", "loads the same model once more")] if self._failed else []
        found += [Choice(model.path, model.name, self._about(model)) for model in local_models()]
        best, others = recommend(read_recommended().models, machine)
        rows = [row for row in others if row.verdict in ("fits", "slow")]
        for row in [best, *rows] if best is not None else rows:
            if not row.model.path.exists():
                about = self._about_missing(row, for_this_machine=row is best)
                found.append(Choice(row.model, row.model.name, about))
        return found

    def _about(self, model: LocalModel) -> str:
        if model.header is None:
            return f"cannot be used: {model.problem}"
        need = launch.model_need(self._preferences, model.header, model.size)
        verdict = need.verdict(memory())
        return f"{size_words(model.size)}, needs {size_words(need.total)} of memory: {verdict}; {model.place}"

    def _about_missing(self, row: Suitability, *, for_this_machine: bool) -> str:
        model = row.model
        size = size_words(model.size) if model.size else "a file"
        if model == self._fetch.model:
            return f"{size}, being fetched now; enter stops that"
        advice = "; for this machine" if for_this_machine else "; slow here" if row.verdict == "slow" else ""
        return f"{size} to fetch, {model.kind}{advice}. {model.note}"

    def on_mount(self) -> None:
        self.run_worker(self._look_for_gpus, thread=True)

    def _look_for_gpus(self) -> None:
        self.call_later(self.replace, self._choices_on(launch.this_machine(self._preferences)))
