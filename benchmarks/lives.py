"""Random lives of engines: does every request end, for all requests and little memory?

A life is a process of its own with two engines at once, of small contexts and small tiers. For some seconds
it submits requests and steers their branches at random; then it resumes paused branches and waits for all
requests. A minute without progress is a hang: the life prints the stacks of all threads and the state of the
queues, and fails. A life is repeated by its number: ``--first 17 --lives 1``.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from srbwriter.demo import bundled_model
from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import EngineError, EngineOptions, Priority, Request, Sampling, Stop
from tests.engine.toy_models import make_gemma, make_jamba, make_mamba

KINDS: dict[str, Callable[[Path], Path] | None] = {
    "attention": None, "sliding": make_gemma, "hybrid": make_jamba, "recurrent": make_mamba
}  # fmt: skip
TIERS = (0, 0, 4096, 16384, 65536, 1 << 20, 4 << 20, None)
PROMPTS = (
    "Once upon a time,",
    "Once upon a time, there was a fox.",
    "The king",
    "Tom and Lily went to the park. ",
    "Ben had a red ball. He was glad. ",
)
VERBS = ("reroll", "rewind", "extend", "append", "kill", "pause", "resume", "add_branch", "cancel", "promote")
SUBMITS = 0.4
"""Share of the actions that are new requests."""
WATCHDOG = 60.0
"""Seconds after the last action, and without a new token or the end of a request, that count as a hang."""
LONGEST = 600.0
"""Seconds after the last action within which all requests end, on a slow machine too."""
UNDER_WAY = 12
"""Requests at once, at most."""


def make_options(chance: random.Random, kind: str) -> EngineOptions:
    """Draw a small context and a small tier for a model of ``kind``."""
    toy = kind != "attention"
    cache_type = "f32" if toy else "f16"
    return EngineOptions(
        n_ctx=chance.choice((256, 256, 512)), host_bytes=chance.choice(TIERS), gpu_layers=0, threads=1,
        max_branches=chance.choice((4, 8, 32)), logits_rows=chance.choice((4, 64)),
        flash_attn="off" if toy else "on", cache_type_k=cache_type, cache_type_v=cache_type, seed=1,
    )  # fmt: skip


def submit(chance: random.Random, engine: Engine) -> Generation:
    """Submit one random request."""
    overflow = chance.choice(("error", "error", "shift"))
    lengths = (0, 4, 12, 24, 60, 120, None if overflow == "error" else 300)  # with "shift" None has no end
    text = f"Tale {chance.randrange(12)}. " + chance.choice(PROMPTS) * chance.choice((1, 1, 3, 6))
    return engine.submit(
        Request(
            text[: chance.choice((40, 120, 220))],
            n=chance.randint(1, 4),
            sampling=Sampling(temperature=chance.choice((0.0, 0.8)), seed=chance.randrange(99)),
            stop=Stop(max_tokens=chance.choice(lengths), ignore_eog=chance.random() < 0.5),
            priority=chance.choice(list(Priority)),
            overflow=overflow,
            cache_prompt=chance.random() < 0.9,
            cache_salt=chance.choice(("", "", "", "a")),
            client=chance.choice(("", "ann", "bob")),
        )
    )


def steer(chance: random.Random, generation: Generation) -> None:
    """Do one random thing to one of the branches of a request, or to all of it."""
    verb, branch = chance.choice(VERBS), chance.choice(generation.branches)
    if verb == "add_branch":
        if len(generation.branches) < 4:
            generation.add_branch()
    elif verb in ("cancel", "promote"):
        getattr(generation, verb)()
    elif verb == "extend":
        branch.extend(chance.randint(1, 30))
    elif verb == "append":
        branch.append(chance.choice((" and", " The rain fell.", "\n")))
    elif verb == "rewind":
        branch.rewind(tokens=chance.randint(1, 20))
    else:
        getattr(branch, verb)()


def describe(engine: Engine) -> Iterator[str]:
    """Describe what an engine runs and what it keeps waiting."""
    queue, cache = engine._scheduler.queue, engine._cache
    yield f"{engine.options}"
    yield f"{engine.stats()}"
    yield f"writing {len(queue.writing)}, reading {len(queue.reading)}"
    for demand in (*queue.writing, *queue.reading):
        goal = demand.length
        tip = cache.tree.tip[demand.seq].end if demand.seq >= 0 else None
        yield f"  {type(demand).__name__} {demand.urgency!r} seq {demand.seq} at {tip}, goal {goal}"
    yield f"background work lacks room {queue.lacks_room}, steady {queue.steady}, step {queue.step}"
    yield f"idle {[(seq, cache.tree.tip[seq].end) for seq in cache.idle]}"
    for request in list(queue.requests):
        yield f"request {request.generation.number}: {request.asked.priority!r}, {len(request.ids)} tokens"
        for active in request.branches:
            yield (
                f"  branch {active.branch.index}: {active.branch.state}, seq {active.seq}, "
                f"goal {active.length}, {len(active.buffer.ids)} of {active.limit} tokens, "
                f"since step {active.since}"
            )


def live(number: int, seconds: float) -> None:
    """Run one life; ends the process with code 1 where a request does not end."""
    chance = random.Random(number)
    with TemporaryDirectory() as folder:
        engines: list[Engine] = []
        for place in range(2):
            kind = list(KINDS)[(number + place * chance.randint(0, 3)) % len(KINDS)]
            make = KINDS[kind]
            model = bundled_model() if make is None else make(Path(folder) / f"{place}.gguf")
            engines.append(Engine.load(model, make_options(chance, kind)))
        generations = act(chance, engines, seconds)
        before = time.monotonic()
        left = wait(generations, engines)
        if left:
            print(f"life {number}: {len(left)} of {len(generations)} requests have not ended", flush=True)
            for line in (line for engine in engines for line in describe(engine)):
                print(line, flush=True)
            faulthandler.dump_traceback(file=sys.stdout, all_threads=True)
            sys.stdout.flush()
            steps = [engine._scheduler.queue.step for engine in engines]
            for engine in engines:
                engine._wake.set()
            time.sleep(5.0)
            more = [engine._scheduler.queue.step for engine in engines]
            print(f"woken: steps {steps} -> {more}, {len([g for g in left if not g.done])} still run")
            sys.stdout.flush()
            sys.exit(1)
        rows, prompt_tokens = (
            sum(getattr(engine.stats(), field) for engine in engines)
            for field in ("prompt_rows", "prompt_tokens")
        )
        waited = time.monotonic() - before
        print(
            f"life {number}: {len(generations)} requests, {waited:.1f} s until the last ended, "
            f"{rows / max(prompt_tokens, 1):.2f} x their prompts evaluated",
            flush=True,
        )
        for engine in engines:
            engine.close()


def act(chance: random.Random, engines: list[Engine], seconds: float) -> list[Generation]:
    """Submit and steer for some seconds; returns all requests, none of them paused."""
    generations: list[Generation] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not generations or chance.random() < SUBMITS:
            if sum(not g.done for g in generations) < UNDER_WAY:
                try:
                    generations.append(submit(chance, chance.choice(engines)))
                except EngineError:  # too long for the window
                    continue
        else:
            steer(chance, chance.choice(generations[-12:]))
        time.sleep(chance.choice((0.0, 0.002, 0.02, 0.1)))
    for generation in generations:
        if generation.request.priority is Priority.BACKGROUND:  # it may rest for ever where cells lack
            chance.choice((generation.promote, generation.cancel))()
        for branch in generation.branches:
            branch.resume()
    return generations


def wait(generations: list[Generation], engines: list[Engine]) -> list[Generation]:
    """Wait for all requests; returns those that have not ended when the watchdog barks."""
    longest = time.monotonic() + LONGEST
    left, before, until = generations, (-1, -1), 0.0
    while left and time.monotonic() < longest:
        now = len(left), sum(engine.stats().generated_tokens for engine in engines)
        if now != before:
            before, until = now, time.monotonic() + WATCHDOG
        elif time.monotonic() > until:
            break
        time.sleep(0.2)
        left = [g for g in left if not g.done]
    for generation in generations:
        if generation.error is not None:
            print(f"request {generation.number}: {generation.error!r}", flush=True)
    return left


def run(number: int, seconds: float) -> bool:
    """Run one life in a process of its own and print what it says; False where it failed."""
    command = [sys.executable, "-X", "faulthandler", "-m", __spec__.name, "--one", str(number)]
    command += ["--seconds", str(seconds)]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds + LONGEST + 60,
        )
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        code, output = -1, f"life {number} did not end at all\n{error.stdout!r}"
    print(output, end="", flush=True)
    if code:
        print(f"life {number}: FAILED with code {code}", flush=True)
    return code == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each life")
    parser.add_argument("--lives", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, help="number of the first life")
    parser.add_argument("--jobs", type=int, default=2, help="lives at once")
    parser.add_argument("--one", type=int, help="run this life in this process")
    arguments = parser.parse_args()
    if arguments.one is not None:
        live(arguments.one, arguments.seconds)
        return
    numbers = range(arguments.first, arguments.first + arguments.lives)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        ended = list(pool.map(lambda number: run(number, arguments.seconds), numbers))
    failed = [number for number, well in zip(numbers, ended, strict=True) if not well]
    print(f"{len(failed)} of {arguments.lives} lives failed: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
