"""Fields of other programs' clients that are no parameters here.

The parameters are in :mod:`srbwriter.engine.parameters`; no name is in both. What SillyTavern sends becomes
parameters of ours; other names are refused, where they would change the text, or ignored.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from .parameters import is_number
from .types import InvalidRequest

_REASONS: Mapping[str, str] = {
    "tfs_z tfs top_a epsilon_cutoff eta_cutoff": "llama.cpp has no such sampler; min-p cuts that tail",
    "smoothing_factor skew": "temperature, dynatemp_range and min-p shape the probabilities",
    "encoder_repetition_penalty": "the only repetition penalty is repeat_penalty",
    "no_repeat_ngram_size contrast": "DRY keeps phrases from repeating: dry_multiplier",
    "repulsion": "siblings = distinct lets no two branches begin alike",
    "penalty_alpha": "contrastive search is not there; XTC keeps a text from being dull",
    "guidance_scale cfg_scale bad_words": "logit_bias and banned_phrases keep words out",
    "num_beams best_beams use_beam_search": "branches are sampled, not searched; ask for more with n",
    "dynatemp_min dynatemp_max min_temp max_temp": "dynatemp_low and dynatemp_high give the range",
    "lora": "adapters are loaded with the model (--lora) and used for all text",
    "structured_outputs structural_tag ebnf guided_grammar guided_choice regex_pattern "
    "guided_whitespace_pattern": "a text is held by grammar, json_schema or regex",
    "allowed_token_ids allowed_tokens": "logit_bias forbids tokens instead",
    "truncate_prompt_tokens": "context cuts the beginning of a prompt that is longer",
    "stop_regex": "a text ends at fixed texts only: stop",
    "logits_processors custom_logit_processor": "a server runs no code of its clients",
}
REFUSED: Mapping[str, str] = {name: why for names, why in _REASONS.items() for name in names.split()}
"""Names that are refused unless they are null, empty or one of ``OFF``, and what there is instead."""
OFF = (0, 1, -1)
"""What turns such a field off, in one program or another."""
IGNORED = (
    "smoothing_curve", "rep_pen_slope", "negative_prompt", "temperature_last", "penalize_nl", "strict",
)  # fmt: skip
"""Names that act beside a refused one only, or change little."""
_KOBOLD_ORDER: Mapping[int, tuple[str, ...]] = {
    0: ("top_k",), 2: ("top_p", "min_p"), 4: ("typ_p",), 5: ("temperature",), 6: ("penalties",),
}  # fmt: skip  # 1 is top-a and 3 tail-free, which are gone


def read_foreign(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that SillyTavern's fields in ``values`` of a request mean.

    Raises InvalidRequest for a field that is missing here or has no meaning.
    """
    for name in REFUSED.keys() & values.keys():
        if _asks(value := values[name]):
            raise InvalidRequest(
                name,
                f"{reprlib.repr(value)} is not possible here: {REFUSED[name]}. Leave it out, or send null",
            )
    changes: dict[str, Any] = {}
    if values.get("do_sample") in (False, "false"):
        changes["temperature"] = 0.0
    low, high = _number(values, "dynatemp_low"), _number(values, "dynatemp_high")
    off = values.get("dynamic_temperature") is False
    if low is not None and high is not None and high > low >= 0 and not off:
        changes |= {"temperature": (low + high) / 2, "dynatemp_range": (high - low) / 2}
    if order := values.get("sampler_order"):
        if not isinstance(order, list | tuple):
            raise InvalidRequest("sampler_order", "expected a list of numbers")
        found = [_KOBOLD_ORDER.get(n, ()) for n in cast("Sequence[Any]", order) if isinstance(n, int)]
        changes["samplers"] = tuple(dict.fromkeys(name for names in found for name in names))
    return changes


def _asks(value: Any) -> bool:
    """Whether a value asks for anything. In a list (one value a branch) any of its entries may."""
    if isinstance(value, list | tuple):
        return any(map(_asks, cast("Sequence[Any]", value)))
    if isinstance(value, str):  # some clients write numbers as text
        return value not in ("", *map(str, OFF), *(f"{off}.0" for off in OFF))
    return value is True or not (value is None or value == {} or value in OFF)


def _number(values: Mapping[str, Any], name: str) -> float | None:
    """A number if the field asks for anything; raises InvalidRequest where it is no finite number."""
    value = values.get(name)
    if value in (None, "", []):
        return None
    if not is_number(value):
        raise InvalidRequest(name, "expected a number")
    return float(value)
