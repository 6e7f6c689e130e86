"""Random lives of engines: does every request end, for all requests and little memory?

A life is a process with two engines that submits and steers for some seconds at random. A minute without
progress is a hang: it prints its state and the stacks of all threads. ``--first 17 --lives 1`` repeats one.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import EngineError, EngineOptions, Priority, Request, Sampling, Stop
from tests.engine.toy_models import make_gemma, make_jamba, make_mamba
from tests.fakes.short_model import short_model

KINDS = {"attention": None, "sliding": make_gemma, "hybrid": make_jamba, "recurrent": make_mamba}
TIERS = (0, 0, 4096, 16384, 65536, 1 << 20, 4 << 20, None)
PROMPTS = ("Once upon a time,", "Once upon a time, a fox.", "The king", "Ben had a red ball. He was glad. ")
VERBS = ("reroll", "rewind", "extend", "kill", "pause", "resume", "add_branch", "cancel", "promote")


def load(chance: random.Random, kind: str, file: Path) -> Engine:
    make = KINDS[kind]
    cache_type, flash = ("f16", "on") if make is None else ("f32", "off")
    options = EngineOptions(
        n_ctx=chance.choice((256, 256, 512)), host_bytes=chance.choice(TIERS), gpu_layers=0, threads=1,
        max_branches=chance.choice((4, 8, 32)), logits_rows=chance.choice((4, 64)), seed=1,
        flash_attn=flash, cache_type_k=cache_type, cache_type_v=cache_type,
    )  # fmt: skip
    return Engine.load(short_model() if make is None else make(file), options)


def submit(chance: random.Random, engine: Engine) -> Generation:
    text = f"Tale {chance.randrange(12)}. " + chance.choice(PROMPTS) * chance.choice((1, 1, 3, 6))
    sampling = Sampling(temperature=chance.choice((0.0, 0.8)), seed=chance.randrange(99))
    stop = Stop(max_tokens=chance.choice((0, 4, 12, 24, 60, 120, 300)), ignore_eog=chance.random() < 0.5)
    return engine.submit(Request(
        text[: chance.choice((40, 120, 220))], n=chance.randint(1, 4), sampling=sampling, stop=stop,
        priority=chance.choice(list(Priority)), overflow=chance.choice(("error", "truncate")),
        cache_prompt=chance.random() < 0.9, cache_salt=chance.choice(("", "a")), client=chance.choice("ab"),
    ))  # fmt: skip


def steer(chance: random.Random, generation: Generation) -> None:
    verb, branch = chance.choice(VERBS), chance.choice(generation.branches)
    if verb == "extend":
        branch.extend(chance.randint(1, 30))
    elif verb == "rewind":
        branch.rewind(tokens=chance.randint(1, 20))
    elif verb != "add_branch" or len(generation.branches) < 4:
        getattr(generation if verb in ("add_branch", "cancel", "promote") else branch, verb)()


def live(number: int, seconds: float) -> None:
    chance, generations = random.Random(number), list[Generation]()
    with TemporaryDirectory() as folder:
        kinds = [list(KINDS)[(number + place * chance.randint(0, 3)) % len(KINDS)] for place in range(2)]
        engines = [load(chance, kind, Path(folder) / f"{place}.gguf") for place, kind in enumerate(kinds)]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if generations and chance.random() >= 0.4:
                steer(chance, chance.choice(generations[-12:]))
            elif sum(not g.done for g in generations) < 12:
                with suppress(EngineError):  # too long for the window
                    generations.append(submit(chance, chance.choice(engines)))
            time.sleep(chance.choice((0.0, 0.002, 0.02, 0.1)))
        for generation in generations:
            if generation.request.priority is Priority.BACKGROUND:  # it may rest for ever where cells lack
                chance.choice((generation.promote, generation.cancel))()
            for branch in generation.branches:
                branch.resume()
        before, until = (-1, -1), 0.0
        while left := [g for g in generations if not g.done]:
            now = len(left), sum(engine.stats().generated_tokens for engine in engines)
            if now != before:
                before, until = now, time.monotonic() + 60.0
            elif time.monotonic() > until:
                print(f"life {number}: {len(left)} have not ended", *(e.stats() for e in engines), sep="\n")
                print(*((g.request, [b.state for b in g.branches]) for g in left), sep="\n", flush=True)
                faulthandler.dump_traceback(all_threads=True)
                os._exit(1)
            time.sleep(0.2)
        print(f"life {number}: {len(generations)} requests, {kinds}", flush=True)
        for engine in engines:
            engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each life")
    parser.add_argument("--lives", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, help="number of the first life")
    parser.add_argument("--one", type=int, help="run this life in this process")
    given = parser.parse_args()
    if given.one is not None:
        return live(given.one, given.seconds)

    def fails(number: int) -> int:
        command = [sys.executable, "-X", "faulthandler", "-m", "benchmarks.lives", "--one", str(number)]
        return subprocess.run([*command, "--seconds", str(given.seconds)], check=False).returncode

    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(fails, range(given.first, given.first + given.lives)))
    failed = [given.first + place for place, code in enumerate(codes) if code]
    print(f"{len(failed)} of {given.lives} lives failed: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
