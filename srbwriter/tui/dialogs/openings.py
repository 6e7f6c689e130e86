"""The list of openings: sample prompts, then the writer's own stories."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srbwriter import paths
from srbwriter.story import ROOT, library
from srbwriter.story.spans import plain
from srbwriter.tui.dialogs.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


KINDS = ("base", "instruct")
_NEEDS_INSTRUCTION_MODEL = (
    "This sample is a request, and the model only continues text. Choose an instruction model (Change the "
    "model in the menu), or write the beginning yourself."
)


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

    def choice(self) -> Choice:
        """Return the entry of the list."""
        about = f"{self.genre}, {self.form}" + (" · for instruct models" if self.kind == "instruct" else "")
        parts = [
            f"Request: {self.request}" if self.request else "",
            self.text,
            f"Memory: {self.memory}" if self.memory else "",
            ", ".join(f"{name} {value}" for name, value in self.sampling.items()),
        ]
        return Choice(self, self.title, about, "\n\n".join(filter(None, parts)))


def read_prompt(file: Path) -> SamplePrompt:
    """Read a sample prompt: TOML between two lines of +++, then a text."""
    _, front, text = file.read_text("utf-8").split("+++\n", 2)
    return SamplePrompt(text=text.rstrip("\n"), **tomllib.loads(front))


def load_prompts() -> list[SamplePrompt]:
    """Return every prompt that comes with the program, simple ones first."""
    found = map(read_prompt, sorted(paths.asset_dir("sample_prompts").glob("*.txt")))
    return sorted(found, key=lambda prompt: (prompt.kind, not prompt.simple, prompt.genre, prompt.title))


async def offer_openings(screen: WriteScreen) -> None:
    """Let the writer choose an opening; escape keeps the empty page.

    Prompts that suit the model come first. Choosing a story leaves the current one, so a story is never the
    preselected entry.
    """
    session = screen.session
    prompts = sorted(load_prompts(), key=lambda prompt: (prompt.kind == "instruct") != session.instruct)
    stories = [
        Choice(path, library.info(path).title, "opens your story", str(path))
        for path in library.recent_stories()
        if path != session.story.file
    ]

    title = "Choose an opening, or write your own: esc keeps an empty page"
    title += "\nYour own stories are last in the list." if stories else ""
    choices = [*(prompt.choice() for prompt in prompts), *stories]
    value = await screen.app.ask(Picker(title, choices, typed=screen.editor.type_words))
    if isinstance(value, SamplePrompt):
        begin_sample(screen, value)
    elif isinstance(value, Path):
        screen.app.open_story(value)


def begin_sample(screen: WriteScreen, prompt: SamplePrompt) -> None:
    """Give the empty story a sample's text, memory, request and sampling, in place of those of an earlier
    sample, and write branches.

    If the sample is only a request and the model follows no requests, write no branches: they would be about
    anything.
    """
    session = screen.session
    story, own = session.story, session.story.node(ROOT).settings
    session.keep()
    session.sampling = replace(session.sampling, **prompt.sampling)
    screen.app.knobs.keep()
    memory = prompt.memory or (own.memory if own.request is None else None)
    story.put_settings(ROOT, replace(own, memory=memory, request=prompt.request or None))
    if prompt.text:
        with story.verb("add", story.current):  # the writer did not type it
            made = story.add_node(story.current, plain(prompt.text, "imported"), "imported")
            story.put("current", made.id)
    screen.show_story()
    if prompt.request and not session.instruct:
        screen.notify(_NEEDS_INSTRUCTION_MODEL)
    if session.instruct or prompt.text:
        screen.run("generate")
