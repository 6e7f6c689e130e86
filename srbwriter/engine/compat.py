"""Fields of other programs' clients that are no parameters: llama.cpp dropped them, or never had them.

The parameters are in :mod:`srbwriter.engine.parameters`; no name is in both.
"""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast

from .parameters import is_number
from .types import InvalidRequest

log = logging.getLogger(__name__)

_KOBOLD_ORDER: Mapping[int, tuple[str, ...]] = {
    0: ("top_k",), 2: ("top_p", "min_p"), 4: ("typ_p",), 5: ("temperature",), 6: ("penalties",),
}  # fmt: skip  # 1 is top-a and 3 tail-free, which are gone


@dataclass(frozen=True, slots=True)
class Gone:
    """Fields that clients still send and llama.cpp does not have.

    ``neutral`` values ask for nothing, as null, ``""`` and empty lists do for every field. Any other value is
    replaced by parameters of today (emulated), passed over (ignored: it changes nothing by itself, or hardly
    anything), refused, since the text would be another one, or passed over with one warning in the log, since
    an earlier version of this program had it (retired).
    """

    names: tuple[str, ...]
    treatment: Literal["emulated", "ignored", "refused", "retired"]
    why: str
    neutral: tuple[float, ...] = (0,)

    def check(self, name: str, value: Any) -> None:
        """Raise InvalidRequest for a value that asks for a missing feature; warn of a retired field."""
        if self.treatment == "retired" and self.asks(value):
            warn_once(name, self.why)
        if self.treatment == "refused" and self.asks(value):
            shown = str(value).lower() if isinstance(value, bool) else reprlib.repr(value)
            neutral = "".join(f"{str(value).lower()}, " for value in self.neutral)
            raise InvalidRequest(
                name, f"{shown} is not possible here: {self.why}. Leave it out, or send {neutral}null"
            )

    def asks(self, value: Any) -> bool:
        """Whether a value asks for anything. In a list (one value a branch) any of its entries may."""
        if isinstance(value, list | tuple):
            return any(self.asks(entry) for entry in cast("Sequence[Any]", value))
        return not (value is None or value in ("", {}) or _as_number(value) in self.neutral)


@cache
def warn_once(name: str, why: str) -> None:
    """Log that a request field has no effect any more, the first time that a client sends it."""
    log.warning("field '%s' of a request: no effect any more, since %s; leave it out", name, why)


def _as_number(value: Any) -> Any:
    """A number that is written as text, as some clients do; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


GONE: tuple[Gone, ...] = (
    Gone(("tfs_z", "tfs"), "refused", "llama.cpp dropped tail-free sampling; min-p cuts that tail", (1, 0)),
    Gone(("top_a",), "refused", "top-a never was in llama.cpp; min-p follows the likeliest token too"),
    Gone(("epsilon_cutoff", "eta_cutoff"), "refused", "llama.cpp has no such cutoff; min-p does its work"),
    Gone(("smoothing_factor",), "refused", "llama.cpp has no quadratic sampling; dynatemp_range comes near"),
    Gone(("smoothing_curve",), "ignored", "it acts with smoothing_factor only"),
    Gone(("skew",), "refused", "llama.cpp has no skew; temperature and min-p shape the probabilities"),
    Gone(("encoder_repetition_penalty",), "refused", "the only repetition penalty is repeat_penalty", (1, 0)),
    Gone(("rep_pen_slope",), "ignored", "repeat_penalty is the same over all of repeat_last_n"),
    Gone(("no_repeat_ngram_size",), "refused", "DRY keeps phrases from repeating: dry_multiplier"),
    Gone(("penalty_alpha",), "refused", "contrastive search evaluates every candidate; "
         "adaptive_target or XTC keep a text from being dull"),
    Gone(("guidance_scale", "cfg_scale"), "refused", "guidance needs a second evaluation of every token; "
         "logit_bias and banned_phrases keep words out", (1, 0)),
    Gone(("negative_prompt",), "ignored", "it acts with guidance_scale only"),
    Gone(("num_beams", "best_beams"), "refused",
         "branches are sampled, not searched; ask for more of them with n", (1, 0)),
    Gone(("use_beam_search",), "refused", "branches are sampled, not searched; ask for more of them with n",
         (False,)),
    Gone(("lora",), "refused", "adapters are loaded with the model (--lora) and used for all text", ()),
    Gone(("structural_tag",), "refused", "tags cannot switch a constraint on and off; "
         "grammar or json_schema holds the whole text", ()),
    Gone(("guided_whitespace_pattern",), "refused", "json_schema decides on the white space itself", ()),
    Gone(("allowed_token_ids", "allowed_tokens"), "refused", "logit_bias forbids tokens instead", ()),
    Gone(("stop_regex",), "refused", "a text ends at fixed texts only: stop", ()),
    Gone(("logits_processors", "custom_logit_processor"), "refused",
         "a server runs no code of its clients", ()),
    Gone(("penalize_nl",), "ignored", "newlines are penalised like every token; logit_bias can favour them"),
    Gone(("do_sample",), "emulated", "false is temperature 0", (True,)),
    Gone(("dynatemp_low", "dynatemp_high", "dynatemp_min", "dynatemp_max", "min_temp", "max_temp"),
         "emulated", "the middle is temperature, half the distance dynatemp_range"),
    Gone(("temperature_last",), "ignored", "temperature acts after truncation unless samplers says else"),
    Gone(("sampler_order",), "emulated", "Kobold's numbers become names in samplers", ()),
    Gone(("strict",), "retired", "no branch gets a context of its own"),
)  # fmt: skip

RETIRED_NAMES = frozenset(name for gone in GONE if gone.treatment == "retired" for name in gone.names)
"""Request fields of earlier versions of this program."""

BY_GONE_NAME: dict[str, Gone] = {name: gone for gone in GONE for name in gone.names}


def replace_gone(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the current parameters that ``values`` of a request mean.

    Raises InvalidRequest for a field that is not supported or has no meaning.
    """
    asked = [n for n, value in values.items() if (gone := BY_GONE_NAME.get(n)) and gone.asks(value)]
    for name in asked:
        BY_GONE_NAME[name].check(name, values[name])
    changes: dict[str, Any] = {}
    if "do_sample" in asked and values["do_sample"] in (False, "false"):
        changes["temperature"] = 0.0
    low = _number(values, "dynatemp_low", "dynatemp_min", "min_temp")
    high = _number(values, "dynatemp_high", "dynatemp_max", "max_temp")
    off = any(values.get(name) is False for name in ("dynatemp", "dynamic_temperature"))
    if low is not None and high is not None and high > low >= 0 and not off:
        changes |= {"temperature": (low + high) / 2, "dynatemp_range": (high - low) / 2}
    if "sampler_order" in asked:
        changes["samplers"] = _order(values["sampler_order"])
    return changes


def _number(values: Mapping[str, Any], *names: str) -> float | None:
    """The first of the fields that asks for anything; raises InvalidRequest where it is no finite number."""
    for name in names:
        value = values.get(name)
        if value not in (None, "", []):
            if not is_number(value):
                raise InvalidRequest(name, "expected a number")
            return float(value)
    return None


def _order(numbers: Any) -> tuple[str, ...]:
    if not isinstance(numbers, list | tuple):
        raise InvalidRequest("sampler_order", "expected a list of numbers")
    found = [_KOBOLD_ORDER.get(n, ()) for n in cast(Sequence[Any], numbers) if isinstance(n, int)]
    return tuple(dict.fromkeys(name for names in found for name in names))
