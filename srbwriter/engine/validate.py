"""What is asked of the engine, looked at on the caller's thread before the engine sees it.

Whatever passes here can be carried out, or fails in words; so a bad value never costs another
request anything. Knows the table of parameters and the vocabulary; starts nothing.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, cast, get_args, get_type_hints

from . import limits
from .generation import Command
from .native.context import CACHE_TYPES, MOST_THREADS
from .parameters import PARAMETERS
from .sampling import SamplerModel, check_for
from .siblings import check_together
from .types import MAX_SEQUENCES, EngineOptions, InvalidRequest, LimitExceeded, Request, Sampling, Stop

_OF_STOP = {p.field: p for p in PARAMETERS if p.record == "stop"}
_OF_REQUEST = {p.field: p for p in PARAMETERS if p.record == "request"}
_SEED, _SAMPLING, _STOP = (int, NoneType), (Sampling, NoneType), (Stop, NoneType)
_TAKES: dict[str, tuple[tuple[type, ...], ...]] = {
    "reroll": (_SEED, _SAMPLING, _STOP, (tuple,), (tuple,)),
    "extend": ((int, Stop, NoneType),),
    "rewind": ((int, NoneType),) * 4,
    "append": ((str,), (bool,)),
    "set_sampling": ((Sampling,),),
    "set_stop": ((Stop,),),
    "change": ((Sampling,), (Stop,)),
    "add_branch": ((int,), _SAMPLING, _STOP, (tuple,), (tuple,)),
}
_SEEDS = next(p for p in PARAMETERS if p.record == "sampling" and p.field == "seed")
_SEED_OF = {"reroll": 0, "rewind": 3}  # the place among their arguments
_MOST = 2**31 - 1  # llama.cpp counts tokens and layers in 32 bits
_MOST_OPTIONS = {"threads": MOST_THREADS, "threads_batch": MOST_THREADS}
_LEAST_OPTIONS = {
    "n_ctx": 1, "n_batch": 1, "n_ubatch": 1, "threads": 1, "threads_batch": 1,
    "sampling_threads": 1, "gpu_layers": -1, "main_gpu": 0, "max_branches": 1, "max_sequences": 1,
    "logits_rows": 1, "nice": 0,
}  # fmt: skip
_MOST_SPLITS = 128  # devices llama.cpp knows at most


def check_request(request: Request, model: SamplerModel, max_branches: int) -> None:
    """Raises InvalidRequest (LimitExceeded for n) naming the first field that cannot mean anything."""
    for field, parameter in _OF_REQUEST.items():
        parameter.check(getattr(request, field))
    if request.n > max_branches:
        raise LimitExceeded(request.n, max_branches)
    for sampling in limits.one_or_each("sampling", request.sampling, request.n):
        check_sampling(sampling, model)
        check_together(request.siblings, sampling)
    for stop in limits.one_or_each("stop", request.stop, request.n):
        check_stop(stop, model.n_vocab)
    for field in ("next_ids", "begin", "without"):
        limits.check_ids(field, getattr(request, field), model.n_vocab)
    for field in ("prompt_logprobs", "next_logprobs", "next_ids"):
        if request.strict and getattr(request, field) not in (None, ()):
            raise InvalidRequest(field, "a strict request has none: ask for them in another")
    for field in ("next_logprobs", "next_ids"):
        if (request.begin or request.takes) and getattr(request, field) not in (None, ()):
            raise InvalidRequest(field, "it is about what follows the prompt: ask without begin and takes")
    if request.logits_callback is not None and not callable(request.logits_callback):
        raise InvalidRequest("logits_callback", "it cannot be called")


def check_command(command: Command, model: SamplerModel, max_branches: int) -> None:
    """Raises InvalidRequest for a verb that cannot be carried out."""
    given = list(zip(_TAKES.get(command.verb, ()), command.args, strict=False))
    if command.verb == "add_branch":
        n, sampling, stop, *_ = command.args
        given[1:3] = [
            *((_SAMPLING, one) for one in limits.one_or_each("sampling", sampling, n)),
            *((_STOP, one) for one in limits.one_or_each("stop", stop, n)),
        ]
    for kinds, value in given:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise InvalidRequest(command.verb, f"it cannot take {value!r}")
        if isinstance(value, Sampling):
            check_sampling(value, model)
            check_together(command.generation.request.siblings, value)
        elif isinstance(value, Stop):
            check_stop(value, model.n_vocab)
        elif isinstance(value, int) and value < 0:
            raise InvalidRequest(command.verb, f"{value} is less than 0")
        elif isinstance(value, str):
            limits.check_prompt("text", len(value))
        elif isinstance(value, tuple):
            limits.check_ids(command.verb, cast("tuple[int, ...]", value), model.n_vocab)
    if command.verb in _SEED_OF:
        _SEEDS.check(command.args[_SEED_OF[command.verb]])
    if command.verb == "add_branch" and not 1 <= command.args[0] <= max_branches:
        raise LimitExceeded(command.args[0], max_branches)
    if command.verb == "add_branch":
        have = len(command.generation.branches)
        if have + command.args[0] > limits.BRANCHES:
            raise InvalidRequest("n", f"the request has had {have} branches, {limits.BRANCHES} are possible")


def check_sampling(sampling: Any, model: SamplerModel) -> None:
    """Raises InvalidRequest for settings that this model cannot sample by."""
    if not isinstance(sampling, Sampling):
        raise InvalidRequest("sampling", f"{sampling!r} is not a Sampling")
    check_for(sampling, model)
    try:
        hash(sampling)  # branches that sample alike are found by it
    except TypeError:
        raise InvalidRequest("sampling", "its sequences must be tuples") from None


def check_stop(stop: Any, n_vocab: int) -> None:
    """Raises InvalidRequest for rules that cannot mean anything."""
    if not isinstance(stop, Stop):
        raise InvalidRequest("stop", f"{stop!r} is not a Stop")
    for field, parameter in _OF_STOP.items():
        parameter.check(getattr(stop, field))
    limits.check_ids("stop_token_ids", stop.token_ids, n_vocab)


def check_options(options: EngineOptions) -> None:
    """Raises InvalidRequest for options that llama.cpp would end the process over, or misread."""
    for name, least in _LEAST_OPTIONS.items():
        value = getattr(options, name)
        most = _MOST_OPTIONS.get(name, _MOST)
        if value is not None and not least <= value <= most:
            raise InvalidRequest(name, f"{value} is not in {least} … {most}")
    for name in ("max_branches", "max_sequences"):
        if (getattr(options, name) or 0) > MAX_SEQUENCES:
            raise InvalidRequest(name, f"llama.cpp has {MAX_SEQUENCES} sequences at most")
    hints = get_type_hints(EngineOptions)
    choices = {name: get_args(hints[name]) for name in ("numa", "flash_attn", "pooling")}
    choices |= dict.fromkeys(("cache_type_k", "cache_type_v"), tuple(CACHE_TYPES))
    for name, known in choices.items():
        value = getattr(options, name)
        if value not in known:
            raise InvalidRequest(name, f"{value!r} is not one of {', '.join(filter(None, known))}")
    if len(options.tensor_split) > _MOST_SPLITS:
        raise InvalidRequest("tensor_split", f"at most {_MOST_SPLITS} devices are possible")
    if not options.step_seconds > 0.0:
        raise InvalidRequest("step_seconds", "it must be more than 0")
