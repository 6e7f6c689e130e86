"""Options, moments and files that would end a process in llama.cpp come to no harm here."""

from __future__ import annotations

from pathlib import Path

from . import in_turn, run_child

_ENGINES = {
    "an engine with the least of everything": """
        from srbwriter.engine.engine import Engine
        for fields in (dict(n_batch=1), dict(n_batch=1, n_ubatch=1), dict(max_sequences=1, max_branches=1),
                       dict(n_ctx=16), dict(max_branches=256, n_batch=1),
                       dict(n_batch=10**6, n_ubatch=10**6)):
            usual = {"gpu_layers": 0, "n_ctx": 256, "threads": 1, "max_branches": 8}
            options = EngineOptions(**{**usual, **fields})
            with Engine.load(short_model(), options, thread=False) as engine:
                request = Request("a b", n=engine.max_branches, prompt_logprobs=1, logprobs=1,
                                  stop=Stop(max_tokens=3, ignore_eog=True))
                generation = engine.submit(request)
                steps = 300
                while steps and not generation.done:
                    engine.process()
                    steps -= 1
                assert generation.done and generation.error is None, generation.error
                assert all(len(b.ids) == 3 for b in generation.branches)
    """,
    "an engine that is closed while it is asked": """
        import threading
        from srbwriter.engine.engine import Engine
        for round in range(4):
            engine = Engine.load(short_model(), EngineOptions(gpu_layers=0, n_ctx=512))
            def ask():
                try:
                    while True:
                        request = Request("Once upon a time " * 20, n=3, stop=Stop(max_tokens=9))
                        generation = engine.submit(request)
                        engine.tokenize("words " * 500)
                        engine.stats(); engine.raw_ctx; engine.resident([1, 2, 3])
                        generation.branches[0].reroll()
                        generation.add_branch()
                except EngineError:
                    pass
            threads = [threading.Thread(target=ask) for _ in range(3)]
            for thread in threads: thread.start()
            engine.call(lambda: None)
            engine.close()
            for thread in threads: thread.join(60)
            assert not any(t.is_alive() for t in threads)
    """,
}
_LEFT_OPEN = """
from srbwriter.engine.engine import Engine
engine = Engine.load(short_model(), EngineOptions(gpu_layers=0, n_ctx=2048))
generation = engine.submit(Request("Once upon a time " * 100, n=8, stop=Stop(ignore_eog=True)))
next(e for e in generation if isinstance(e, Text))
"""


def test_engines_do_no_harm() -> None:
    child = run_child(in_turn(_ENGINES.values()), _LEFT_OPEN)
    assert child.returncode == 0, child.stderr


_FILES = """
import random
from pathlib import Path
from srbwriter.engine.engine import Engine
good = short_model().read_bytes()
path = Path(folder) / "damaged.gguf"
dice = random.Random(3)
def load(data):
    path.write_bytes(data)
    try:
        with Engine.load(path, EngineOptions(gpu_layers=0, n_ctx=256), thread=False) as engine:
            generation = engine.submit(Request("Once", stop=Stop(max_tokens=2)))
            for _ in range(20):
                engine.process()
    except EngineError:
        return
"""
_DAMAGE = {
    "cut short anywhere": """
        for _ in range(tries):
            load(good[: dice.randrange(len(good))])
        for size in range(0, 400, 1000 // tries):
            load(good[:size])
    """,
    "bytes of the header changed": """
        for _ in range(tries):
            data = bytearray(good)
            for _ in range(dice.randrange(1, 6)):
                data[dice.randrange(4, 4000)] = dice.randrange(256)
            load(bytes(data))
    """,
    "a token twice": """
        for first, second in ((b"\\x02\\0\\0\\0\\0\\0\\0\\0he", b"\\x02\\0\\0\\0\\0\\0\\0\\0in"),):
            assert good.count(first) and good.count(second)
            path.write_bytes(good.replace(first, second, 1))
            try:
                Engine.load(path, EngineOptions(gpu_layers=0, n_ctx=256))
            except ModelError as error:
                assert "a token twice" in str(error), error
                continue
            raise SystemExit("not refused")
    """,
}


def test_damaged_files_do_no_harm(tmp_path: Path) -> None:
    given = f"folder, tries = {str(tmp_path)!r}, {10}"
    child = run_child(given, _FILES, in_turn(_DAMAGE.values()), timeout=240)
    assert child.returncode == 0, child.stderr
