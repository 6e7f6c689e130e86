"""Fields of other programs' clients that are no parameters here.

The parameters are in :mod:`srbwriter.engine.parameters`; no name is in both. What SillyTavern sends becomes
parameters of ours; other names are refused, where they would change the text, or ignored.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from .parameters import is_number
from .types import InvalidRequest

_KOBOLD_ORDER: Mapping[int, tuple[str, ...]] = {
    0: ("top_k",), 2: ("top_p", "min_p"), 4: ("typ_p",), 5: ("temperature",), 6: ("penalties",),
}  # fmt: skip  # 1 is top-a and 3 tail-free, which are gone


class Missing(NamedTuple):
    """Why a field is refused, but for ``neutral`` values and null; without ``neutral``, why it is ignored."""

    why: str
    neutral: tuple[float, ...] | None = (0,)

    def asks(self, value: Any) -> bool:
        """Whether a value asks for anything. In a list (one value a branch) any of its entries may."""
        if isinstance(value, list | tuple):
            return any(self.asks(entry) for entry in cast("Sequence[Any]", value))
        return not (value is None or value in ("", {}) or _as_number(value) in (self.neutral or ()))


def _as_number(value: Any) -> Any:
    """A number that is written as text, as some clients do; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


_SAMPLED = "branches are sampled, not searched; ask for more of them with n"
_CONSTRAINT = "a text is held by grammar, json_schema or regex"
_RANGE = "dynatemp_low and dynatemp_high give the range of the temperature"

MISSING: Mapping[str, Missing] = {
    "tfs_z": Missing("llama.cpp dropped tail-free sampling; min-p cuts that tail", (1, 0)),
    "tfs": Missing("llama.cpp dropped tail-free sampling; min-p cuts that tail", (1, 0)),
    "top_a": Missing("top-a never was in llama.cpp; min-p follows the likeliest token too"),
    "epsilon_cutoff": Missing("llama.cpp has no such cutoff; min-p does its work"),
    "eta_cutoff": Missing("llama.cpp has no such cutoff; min-p does its work"),
    "smoothing_factor": Missing("llama.cpp has no quadratic sampling; dynatemp_range comes near"),
    "smoothing_curve": Missing("it acts with smoothing_factor only", None),
    "skew": Missing("llama.cpp has no skew; temperature and min-p shape the probabilities"),
    "encoder_repetition_penalty": Missing("the only repetition penalty is repeat_penalty", (1, 0)),
    "rep_pen_slope": Missing("repeat_penalty is the same over all of repeat_last_n", None),
    "no_repeat_ngram_size": Missing("DRY keeps phrases from repeating: dry_multiplier"),
    "repulsion": Missing("siblings = distinct lets no two branches begin alike", (0,)),
    "contrast": Missing("DRY keeps a text from repeating itself"),
    "penalty_alpha": Missing("contrastive search is not there; XTC keeps a text from being dull"),
    "guidance_scale": Missing("logit_bias and banned_phrases keep words out", (1, 0)),
    "cfg_scale": Missing("logit_bias and banned_phrases keep words out", (1, 0)),
    "negative_prompt": Missing("it acts with guidance_scale only", None),
    "num_beams": Missing(_SAMPLED, (1, 0)),
    "best_beams": Missing(_SAMPLED, (1, 0)),
    "use_beam_search": Missing(_SAMPLED),
    "dynatemp_min": Missing(_RANGE, (1, 0)),
    "dynatemp_max": Missing(_RANGE, (1, 0)),
    "min_temp": Missing(_RANGE, (1, 0)),
    "max_temp": Missing(_RANGE, (1, 0)),
    "temperature_last": Missing("temperature acts after truncation unless samplers says else", None),
    "penalize_nl": Missing("newlines are penalised like every token; logit_bias can favour them", None),
    "lora": Missing("adapters are loaded with the model (--lora) and used for all text", ()),
    "structured_outputs": Missing(_CONSTRAINT, ()),
    "structural_tag": Missing(_CONSTRAINT, ()),
    "ebnf": Missing(_CONSTRAINT, ()),
    "guided_grammar": Missing(_CONSTRAINT, ()),
    "guided_choice": Missing(_CONSTRAINT, ()),
    "regex_pattern": Missing(_CONSTRAINT, ()),
    "guided_whitespace_pattern": Missing("json_schema decides on the white space itself", ()),
    "allowed_token_ids": Missing("logit_bias forbids tokens instead", ()),
    "allowed_tokens": Missing("logit_bias forbids tokens instead", ()),
    "truncate_prompt_tokens": Missing("context cuts the beginning of a prompt that is longer", (-1,)),
    "bad_words": Missing("banned_phrases are the phrases that never come", ()),
    "stop_regex": Missing("a text ends at fixed texts only: stop", ()),
    "logits_processors": Missing("a server runs no code of its clients", ()),
    "custom_logit_processor": Missing("a server runs no code of its clients", ()),
    "strict": Missing("no branch gets a context of its own", None),
}
"""Names that are refused or ignored."""

REFUSED: Sequence[str] = tuple(name for name, missing in MISSING.items() if missing.neutral is not None)
IGNORED: Sequence[str] = tuple(name for name, missing in MISSING.items() if missing.neutral is None)


def read_foreign(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that SillyTavern's fields in ``values`` of a request mean.

    Raises InvalidRequest for a field that is missing here or has no meaning.
    """
    for name in REFUSED:
        if name in values and MISSING[name].asks(values[name]):
            shown, missing = reprlib.repr(values[name]), MISSING[name]
            neutral = "".join(f"{value}, " for value in missing.neutral or ())
            raise InvalidRequest(
                name, f"{shown} is not possible here: {missing.why}. Leave it out, or send {neutral}null"
            )
    changes: dict[str, Any] = {}
    if values.get("do_sample") in (False, "false"):
        changes["temperature"] = 0.0
    low, high = _number(values, "dynatemp_low"), _number(values, "dynatemp_high")
    off = values.get("dynamic_temperature") is False
    if low is not None and high is not None and high > low >= 0 and not off:
        changes |= {"temperature": (low + high) / 2, "dynatemp_range": (high - low) / 2}
    if order := values.get("sampler_order"):
        changes["samplers"] = _order(order)
    return changes


def _number(values: Mapping[str, Any], name: str) -> float | None:
    """A number if the field asks for anything; raises InvalidRequest where it is no finite number."""
    value = values.get(name)
    if value in (None, "", []):
        return None
    if not is_number(value):
        raise InvalidRequest(name, "expected a number")
    return float(value)


def _order(numbers: Any) -> tuple[str, ...]:
    if not isinstance(numbers, list | tuple):
        raise InvalidRequest("sampler_order", "expected a list of numbers")
    found = [_KOBOLD_ORDER.get(n, ()) for n in cast(Sequence[Any], numbers) if isinstance(n, int)]
    return tuple(dict.fromkeys(name for names in found for name in names))
