"""What suits one model better than the program's defaults: a small table, by the name in the model's file.

The writer, a settings file, a flag or a sample prompt override it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from srbwriter.gguf import Damaged, Texts, pairs

ENDLESS = "generation.ignore_eos"
"""The setting for a model that ends stories too soon, so that the app keeps it from ending them."""

_SUITED: Mapping[tuple[object, object], Mapping[str, Any]] = {
    # The bundled model. Without DRY 15 of 64 branches repeat a run of eight words, with it and llama.cpp's
    # own sequence breakers 4, with "*" alone none. Where three tokens may repeat, as in a name, 1 name of 73
    # is bent instead of 5 of 59 with two (benchmarks/demo_model). It ends five of eight branches of a tale
    # in the first round.
    ("storyteller", "72M"): {
        "sampling.temperature": 0.8, "sampling.top_k": 40, "sampling.top_p": 0.95, "sampling.min_p": 0.05,
        "sampling.dry_multiplier": 0.8, "sampling.dry_base": 1.75, "sampling.dry_allowed_length": 3,
        "sampling.dry_penalty_last_n": -1, "sampling.dry_sequence_breakers": ("*",), ENDLESS: True,
    },
}  # fmt: skip


def suited_to(metadata: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the settings that suit the model with this metadata; none for one that is not in the table."""
    return _SUITED.get((metadata.get("general.name"), metadata.get("general.size_label")), {})


_FILL_GAPS = ("coder", "codestral", "codegemma", "codellama", "code llama", "starcoder")
"""Names of models that were trained to fill gaps; others, such as Qwen's, only have the tokens for it."""


def fills_gaps(metadata: Mapping[str, object]) -> bool:
    """Return whether a model was trained to write text between two others."""
    return any(family in str(metadata.get("general.name")).lower() for family in _FILL_GAPS)


def suited_to_file(path: Path) -> Mapping[str, Any]:
    """Return the settings that suit the model in a file; none for a file that is missing or no model."""
    try:  # the names stand before the vocabulary
        return suited_to(dict(takewhile(lambda pair: not isinstance(pair[1], Texts), pairs(path))))
    except (OSError, Damaged):
        return {}
