"""How to begin: sample prompts, and below them the last stories. One key and branches are being written.

Knows prompts and the write screen; the story's verbs do the work.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import paths
from srbwriter.demo import bundled_model
from srbwriter.story import ROOT, Story, files
from srbwriter.tui import prompts
from srbwriter.tui.screens.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.tui.prompts import SamplePrompt
    from srbwriter.tui.write_screen import WriteScreen


def choices(instruct: bool, recent: list[tuple[Path, str]]) -> list[Choice]:
    """The prompts that suit the model, then the others, and last the writer's own stories.

    A story leaves the one at hand, so it is never what a plain enter takes.
    """
    found: list[Choice] = []
    ordered = sorted(prompts.load_all(), key=lambda prompt: (prompt.kind == "instruct") != instruct)
    for prompt in ordered:
        about = f"{prompt.genre}, {prompt.form}"
        if prompt.kind == "instruct":
            about += " · for instruct models"
        found.append(Choice(prompt, prompt.title, about, _preview(prompt)))
    return found + [Choice(path, title, "opens this story of yours", f"{path}") for path, title in recent]


def _preview(prompt: SamplePrompt) -> str:
    parts = [prompt.text]
    if prompt.memory:
        parts.append(f"Memory: {prompt.memory}")
    if prompt.sampling:
        parts.append(", ".join(f"{name} {value}" for name, value in prompt.sampling.items()))
    return "\n\n".join(parts)


def offer_openings(screen: WriteScreen) -> None:
    """Let the writer choose how to begin; escape is an empty page."""
    session = screen.session
    model = session.model
    instruct = model is not None and model.chat_template is not None and Path(model.path) != bundled_model()
    recent = [(path, title) for path, title in screen.app.recent() if path != session.story.file]

    def chosen(value: object) -> None:
        if isinstance(value, prompts.SamplePrompt):
            screen.guarded(lambda: _begin(screen, value))
        elif isinstance(value, Path):
            screen.app.open_story(value)

    foot = "enter begins and writes branches at once · esc is an empty page · type to narrow"
    if recent:
        foot += " · your own stories are last in the list"
    screen.app.push_screen(Picker("How shall it begin?", choices(instruct, recent), foot=foot), chosen)


def _begin(screen: WriteScreen, prompt: SamplePrompt) -> None:
    """Write on from ``prompt``, in a story of its own where this one has words."""
    session = screen.session
    session.keep()
    session.sampling = replace(session.sampling, **prompt.sampling)
    screen.app.knobs.keep()
    if session.text().strip():
        made = files.begin(prompt.title, paths.library_dir())
        with Story.open(made) as story:
            _put(story, prompt)
        notes = [f"A new story. {session.title} is as you left it."]
        screen.app.open_story(made, notes, begins=True)
        return
    _put(session.story, prompt)
    screen.show_story()
    screen.write()
    screen.grid.go(0)


def _put(story: Story, prompt: SamplePrompt) -> None:
    if prompt.memory:
        story.put_settings(ROOT, replace(story.own_settings(ROOT), memory=prompt.memory))
    story.add(story.current, [prompt.text], "imported", stand=True)  # not words of the writer's
