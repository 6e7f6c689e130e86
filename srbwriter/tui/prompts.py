"""Sample prompts: openings that a writer can begin with, one file each.

A file is TOML between two lines of ``+++`` and then the text. Knows files; knows no screen and no session.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srbwriter import paths

KINDS = ("base", "instruct")


class PromptError(ValueError):
    """A sample prompt cannot be read. Names the file."""


@dataclass(frozen=True, slots=True)
class SamplePrompt:
    """An opening. ``kind`` is the sort of model it is for; ``sampling`` holds parameters by name."""

    title: str
    genre: str
    form: str
    kind: str
    text: str
    memory: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    simple: bool = False
    """Plain enough for a small model to go on with."""


def read(file: Path) -> SamplePrompt:
    """Read one file. Raises PromptError."""
    try:
        whole = file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise PromptError(f"{file}: {error}") from error
    parts = whole.split("+++\n", 2)
    if len(parts) != 3 or parts[0] or not parts[2].strip():
        raise PromptError(f"{file}: expected TOML between two lines of +++ and then a text")
    _, front, text = parts
    try:
        values = tomllib.loads(front)
        prompt = SamplePrompt(text=text.rstrip("\n"), **values)
    except (ValueError, TypeError) as error:
        raise PromptError(f"{file}: {error}") from error
    if prompt.kind not in KINDS:
        raise PromptError(f"{file}: kind: expected one of {', '.join(KINDS)}")
    return prompt


def load_all() -> list[SamplePrompt]:
    """Every prompt that ships with the program, simple ones first; broken files are left out."""
    found: list[SamplePrompt] = []
    for file in sorted(paths.asset_dir("sample_prompts").glob("*.txt")):
        try:
            found.append(read(file))
        except PromptError:
            continue
    return sorted(found, key=lambda prompt: (prompt.kind, not prompt.simple, prompt.genre, prompt.title))
