"""What suits one model better than the program's defaults: a small table, by the name in the model's file.

Whatever the writer, a settings file, a flag or a sample prompt says goes before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from srbwriter.gguf import Damaged, Texts, pairs


@dataclass(frozen=True, slots=True)
class Suited:
    """What suits one model. ``sampling`` has fields of the engine's ``Sampling`` by name.

    ``writes_on`` says that the model ends stories too soon, so that the app keeps it from ending them;
    ``fills_gaps`` that it was trained to write text between two others: tokens for that alone prove nothing.
    """

    sampling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    writes_on: bool = False
    fills_gaps: bool = False


_SUITED = {
    # The bundled model. Without DRY 15 of 64 branches repeat a run of eight words, with it and llama.cpp's
    # own sequence breakers 4, with "*" alone none. Where three tokens may repeat, as in a name, 1 name of 73
    # is bent instead of 5 of 59 with two (benchmarks/demo_model). It ends five of eight branches of a tale
    # in the first round, and fills a gap worse than it continues the text before it.
    ("storyteller", "72M"): Suited(
        {
            "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05,
            "dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 3, "dry_penalty_last_n": -1,
            "dry_sequence_breakers": ("*",),
        },
        writes_on=True,
    ),
}  # fmt: skip


_FILL_GAPS = ("coder", "codestral", "codegemma", "codellama", "code llama", "starcoder")
"""Names of models that were trained to fill gaps; among those that were not are the other models of Qwen,
which have the same tokens."""


def suited_to(metadata: Mapping[str, object]) -> Suited:
    """Return what suits the model with this metadata; nothing for one that is not in the table."""
    name, size = (str(metadata.get(key, "")) for key in ("general.name", "general.size_label"))
    fills_gaps = any(family in name.lower() for family in _FILL_GAPS)
    return _SUITED.get((name, size), Suited(fills_gaps=fills_gaps))


def suited_to_file(path: Path) -> Suited:
    """Return what suits the model in a file; nothing for a file that is missing or no model."""
    with suppress(OSError, Damaged):
        # the names stand before the vocabulary
        return suited_to(dict(takewhile(lambda pair: not isinstance(pair[1], Texts), pairs(path))))
    return Suited()
