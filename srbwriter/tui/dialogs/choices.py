"""Pickers for an opening, a model and a theme.

Knows files of prompts, models and themes, and the write screen; the session and the story make the changes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srbwriter import launch, paths
from srbwriter.engine.types import EngineError
from srbwriter.models import (
    Machine,
    RecommendedModel,
    Suitability,
    local_models,
    memory,
    memory_budget,
    read_recommended,
    recommend,
    size_words,
)
from srbwriter.story import ROOT, Story, files
from srbwriter.tui import options, themes
from srbwriter.tui.dialogs.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.models import LocalModel
    from srbwriter.tui.options import Preferences
    from srbwriter.tui.program import Fetch, Program, Writer


KINDS = ("base", "instruct")


class PromptError(ValueError):
    """A sample prompt file that cannot be read; the message names it."""


@dataclass(frozen=True, slots=True)
class SamplePrompt:
    """An opening. ``kind`` is the kind of model it suits; ``sampling`` maps parameter names to values.

    ``text`` is the beginning of the story. ``request`` is the instruction for an instruction model and never
    becomes part of the story; a sample of kind "instruct" always has one and may have no text.
    """

    title: str
    genre: str
    form: str
    kind: str
    text: str = ""
    request: str = ""
    memory: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    simple: bool = False
    """Simple enough for a small model to continue."""


def read_prompt(file: Path) -> SamplePrompt:
    """Read a sample prompt from ``file``. Raises PromptError."""
    try:
        whole = file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise PromptError(f"{file}: {error}") from error
    parts = whole.split("+++\n", 2)
    if len(parts) != 3 or parts[0]:
        raise PromptError(f"{file}: expected TOML between two lines of +++ and then a text")
    _, front, text = parts
    try:
        values = tomllib.loads(front)
        prompt = SamplePrompt(text=text.rstrip("\n"), **values)
    except (ValueError, TypeError) as error:
        raise PromptError(f"{file}: {error}") from error
    if problem := _problem(prompt):
        raise PromptError(f"{file}: {problem}")
    return prompt


def _problem(prompt: SamplePrompt) -> str:
    """Return the first fault in a sample, or an empty string."""
    texts: list[object] = [
        prompt.text,
        prompt.request,
        prompt.memory,
        prompt.title,
        prompt.genre,
        prompt.form,
    ]
    if not all(isinstance(text, str) for text in texts):
        return "expected words in quotes for title, genre, form, request and memory"
    if prompt.kind not in KINDS:
        return f"kind: expected one of {', '.join(KINDS)}"
    if prompt.kind == "instruct" and not prompt.request.strip():
        return "request: expected an instruction for the model, because kind is instruct"
    if prompt.kind == "base":
        if prompt.request:
            return "request: only a sample of kind instruct has one"
        if not prompt.text.strip():
            return "expected a text after the second line of +++"
    return ""


def load_prompts() -> list[SamplePrompt]:
    """Return every prompt that comes with the program, simple ones first; skip unreadable files."""
    found: list[SamplePrompt] = []
    for file in sorted(paths.asset_dir("sample_prompts").glob("*.txt")):
        try:
            found.append(read_prompt(file))
        except PromptError:
            continue
    return sorted(found, key=lambda prompt: (prompt.kind, not prompt.simple, prompt.genre, prompt.title))


def opening_choices(instruct: bool, recent: list[tuple[Path, str]]) -> list[Choice]:
    """Return picker entries: prompts that suit the model, other prompts, then the writer's own stories.

    Choosing a story leaves the current one, so a story is never the preselected entry.
    """
    found: list[Choice] = []
    ordered = sorted(load_prompts(), key=lambda prompt: (prompt.kind == "instruct") != instruct)
    for prompt in ordered:
        about = f"{prompt.genre}, {prompt.form}"
        if prompt.kind == "instruct":
            about += " · for instruct models"
        found.append(Choice(prompt, prompt.title, about, _preview(prompt)))
    return found + [Choice(path, title, "opens your story", f"{path}") for path, title in recent]


def _preview(prompt: SamplePrompt) -> str:
    parts = [prompt.text] if prompt.text else []
    if prompt.request:
        parts.insert(0, f"Request: {prompt.request}")
    if prompt.memory:
        parts.append(f"Memory: {prompt.memory}")
    if prompt.sampling:
        parts.append(", ".join(f"{name} {value}" for name, value in prompt.sampling.items()))
    return "\n\n".join(parts)


def offer_openings(screen: Writer) -> None:
    """Let the writer choose an opening; escape keeps the empty page."""
    session = screen.session
    recent = [(path, title) for path, title in screen.app.recent() if path != session.story.file]

    def chosen(value: object) -> None:
        if isinstance(value, SamplePrompt):
            begin_sample(screen, value)
        elif isinstance(value, Path):
            screen.app.open_story(value)

    foot = "enter starts with it and writes branches · esc keeps an empty page · type to narrow"
    if recent:
        foot += " · your own stories are last in the list"
    screen.ask(Picker("Choose an opening", opening_choices(session.instruct, recent), foot=foot), chosen)


def begin_sample(screen: Writer, prompt: SamplePrompt) -> None:
    """Start from ``prompt`` and write branches; if the current story has words, start a new story.

    If the sample is only a request and the model follows no requests, write no branches: they would be about
    anything.
    """
    session = screen.session
    writes = session.instruct or bool(prompt.text)
    notes = [] if session.instruct or not prompt.request else [_NEEDS_INSTRUCTION_MODEL]
    session.keep()
    session.sampling = replace(session.sampling, **prompt.sampling)
    screen.app.knobs.keep()
    if session.text().strip():
        made = files.begin(prompt.title, paths.library_dir())
        with Story.open(made) as story:
            _put(story, prompt)
        notes = [f"A new story. {session.title} is as you left it.", *notes]
        screen.app.open_story(made, notes, begins=writes)
        return
    _put(session.story, prompt)
    screen.show_story()
    for words in notes:
        screen.notify(words)
    if writes:
        screen.run("generate")


_NEEDS_INSTRUCTION_MODEL = (
    "This sample is a request, and the model only continues text. Choose an instruction model (Change the "
    "model in the menu), or write the beginning yourself."
)


def _put(story: Story, prompt: SamplePrompt) -> None:
    """Give an empty story a sample's text, memory and request, replacing those of an earlier sample."""
    own = story.own_settings(ROOT)
    memory = prompt.memory or (own.memory if own.request is None else None)
    story.put_settings(ROOT, replace(own, memory=memory, request=prompt.request or None))
    if prompt.text:
        story.add(story.current, [prompt.text], "imported", stand=True)  # the writer did not type them


def model_choices(preferences: Preferences, fetch: Fetch, machine: Machine) -> list[Choice]:
    """Return picker entries: all local models, then recommended models that fit and are not here yet.

    The one for this machine comes first. Those that would be slow are listed behind the others, and say so.
    """
    here = [Choice(model.path, model.name, _about(model, preferences)) for model in local_models()]
    best, others = recommend(read_recommended().models, machine)
    rows = [row for row in others if row.verdict in ("fits", "slow") and not row.model.is_here]
    if best is not None and not best.model.is_here:
        rows.insert(0, best)
    return here + [
        Choice(row.model, row.model.name, _about_missing(row, fetch, for_this_machine=row is best))
        for row in rows
    ]


def _about_missing(row: Suitability, fetch: Fetch, *, for_this_machine: bool) -> str:
    model = row.model
    size = size_words(model.size) if model.size else "a file"
    if model == fetch.model:
        return f"{size}, being fetched now; enter stops that"
    progress = f"{size} to fetch"
    if model.arrived:
        progress = f"{size_words(model.arrived)} of {size} are here, enter continues"
    if row.speed is None:
        return f"{progress}, {model.kind}. {model.note}"
    advice = "for this machine: " if for_this_machine else "slow: " if row.verdict == "slow" else ""
    return f"{progress}, {model.kind}; {advice}{row.speed}. {model.note}"


def _about(model: LocalModel, preferences: Preferences) -> str:
    if model.header is None:
        return f"cannot be used: {model.problem}"
    need = launch.model_need(preferences, model.header, model.size)
    verdict = need.verdict(memory(), memory_budget())
    return f"{size_words(model.size)}, needs {size_words(need.total)} of memory: {verdict}; {model.place}"


class ModelPicker(Picker):
    """Local models and recommended ones, these with their speed once this machine has been measured."""

    def __init__(self, preferences: Preferences, fetch: Fetch) -> None:
        self._preferences, self._fetch = preferences, fetch
        foot = "enter loads one of yours for now, or fetches one and keeps it · {keys} · type to narrow"
        super().__init__("Models", self._choices_on(Machine(memory(), memory_budget())), foot=foot)

    def _choices_on(self, machine: Machine) -> list[Choice]:
        return model_choices(self._preferences, self._fetch, machine)

    def on_mount(self) -> None:
        self.run_worker(self._measure, thread=True)

    def _measure(self) -> None:
        try:
            machine = launch.measure_machine(self._preferences)
        except EngineError:  # the list is as useful without
            return
        self.call_later(self.replace, self._choices_on(machine))


def choose_model(screen: Writer) -> None:
    """Let the writer choose a local model to load or a recommended one to fetch; the story stays open."""
    fetch = screen.app.fetch

    def chosen(value: object) -> None:
        if isinstance(value, Path):
            screen.session.load_model(value)
        elif isinstance(value, RecommendedModel):
            fetch.begin(screen, value)

    screen.app.offer.withdraw()
    screen.ask(ModelPicker(screen.app.preferences, fetch), chosen)


def choose_theme(app: Program) -> None:
    """Let the writer choose a theme, with a preview; escape restores the old one."""
    before = app.theme
    app.load_themes()
    known = set(app.available_themes)
    choices = [Choice(name, themes.title(file)) for name, file in themes.files().items() if name in known]

    def chosen(name: str | None) -> None:
        app.show_theme(name or before)
        if name is not None:
            app.preferences.put(options.THEME, name)

    foot = f"enter keeps it · {{keys}} · your own belong in {themes.own_folder()}"
    picker = Picker("Themes", choices, at=before, looked=app.show_theme, foot=foot, aside=True)
    app.push_screen(picker, chosen)
