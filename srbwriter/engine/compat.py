"""What other programs' clients still send and is no parameter: llama.cpp no longer has it, or never had.

The parameters there are stand in :mod:`srbwriter.engine.parameters`; no name is both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from .parameters import is_number
from .types import InvalidRequest

_KOBOLD_ORDER: Mapping[int, tuple[str, ...]] = {
    0: ("top_k",), 2: ("top_p", "min_p"), 4: ("typ_p",), 5: ("temperature",), 6: ("penalties",),
}  # fmt: skip  # 1 is top-a and 3 tail-free, which are gone


@dataclass(frozen=True, slots=True)
class Gone:
    """What clients still send and llama.cpp no longer has; ``neutral`` values ask for nothing."""

    names: tuple[str, ...]
    treatment: Literal["emulated", "ignored", "refused"]
    why: str
    neutral: tuple[Any, ...] = (0, None)


GONE: tuple[Gone, ...] = (
    Gone(("tfs_z", "tfs"), "ignored", "llama.cpp dropped it; min-p cuts the same tail", (1, None)),
    Gone(("penalize_nl",), "ignored", "newlines are penalised like every token; logit_bias can favour them",
         (True, None)),
    Gone(("top_a",), "ignored", "top-a never was in llama.cpp; min-p also follows the likeliest token"),
    Gone(("epsilon_cutoff", "eta_cutoff"), "ignored", "llama.cpp has no such cutoff; min-p does its work"),
    Gone(("smoothing_factor", "smoothing_curve"), "ignored", "quadratic sampling is not in llama.cpp; "
         "dynatemp_range comes near", (0, 1, None)),
    Gone(("rep_pen_slope", "encoder_repetition_penalty"), "ignored", "only one repetition penalty exists, "
         "repeat_penalty", (0, 1, None)),
    Gone(("no_repeat_ngram_size",), "ignored", "DRY keeps phrases from repeating: dry_multiplier"),
    Gone(("penalty_alpha", "guidance_scale", "cfg_scale", "negative_prompt"), "ignored",
         "this needs a second evaluation of every token", (0, 1, "", None)),
    Gone(("num_beams", "use_beam_search", "best_beams"), "refused",
         "branches are sampled, not searched; ask for more of them with n", (0, 1, False, None)),
    Gone(("do_sample",), "emulated", "false is temperature 0", (True, None)),
    Gone(("dynatemp_low", "dynatemp_high", "min_temp", "max_temp"), "emulated",
         "the middle is temperature, half the distance dynatemp_range"),
    Gone(("temperature_last",), "emulated",
         "temperature acts after truncation unless samplers says otherwise", (False, True, None)),
    Gone(("sampler_order",), "emulated", "Kobold's numbers become names in samplers", ([], None)),
)  # fmt: skip

BY_GONE_NAME: dict[str, Gone] = {name: gone for gone in GONE for name in gone.names}


def replace_gone(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What ``values`` of a request mean in parameters of today, and a sentence for each that is ignored.

    Raises InvalidRequest for what cannot be had or cannot mean anything.
    """
    asked = {n: (g, v) for n, v in values.items() if (g := BY_GONE_NAME.get(n)) and v not in g.neutral}
    notes: list[str] = []
    for name, (gone, _) in asked.items():
        if gone.treatment == "refused":
            raise InvalidRequest(name, gone.why)
        if gone.treatment == "ignored":
            notes.append(f"{name} is ignored: {gone.why}")
    changes: dict[str, Any] = {}
    if "do_sample" in asked and values["do_sample"] in (False, "false"):
        changes["temperature"] = 0.0
    low, high = _number(values, "dynatemp_low", "min_temp"), _number(values, "dynatemp_high", "max_temp")
    off = any(values.get(name) is False for name in ("dynatemp", "dynamic_temperature"))
    if low is not None and high is not None and high > low >= 0 and not off:
        changes |= {"temperature": (low + high) / 2, "dynatemp_range": (high - low) / 2}
    if "sampler_order" in asked:
        changes["samplers"] = _order(values["sampler_order"])
    return changes, notes


def _number(values: Mapping[str, Any], *names: str) -> float | None:
    """The first of the fields that is there; raises InvalidRequest where it is no finite number."""
    for name in names:
        value = values.get(name)
        if value is not None:
            if not is_number(value):
                raise InvalidRequest(name, "expected a number")
            return float(value)
    return None


def _order(numbers: Any) -> tuple[str, ...]:
    if not isinstance(numbers, list | tuple):
        raise InvalidRequest("sampler_order", "expected a list of numbers")
    found = [_KOBOLD_ORDER.get(n, ()) for n in cast(Sequence[Any], numbers) if isinstance(n, int)]
    return tuple(dict.fromkeys(name for names in found for name in names))
