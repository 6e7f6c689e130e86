"""Samplers and grammars that would end a process in llama.cpp come to no harm here."""

from __future__ import annotations

from . import in_turn, run_child

_ENGINE = """
from srbwriter.engine.engine import Engine
engine = Engine.load(short_model(), EngineOptions(gpu_layers=0, n_ctx=256, threads=1), thread=False)
def write(tokens=3, row=None, **values):
    def show(logits, view):
        if row is not None:
            logits[:] = row
    asked = Request("Once", sampling=Sampling(**values), stop=Stop(max_tokens=tokens), logits_callback=show)
    try:
        generation = engine.submit(asked)
    except InvalidRequest:
        return False
    while not generation.done:
        engine.process()
    return generation.error is None
"""

_GUARDED = {
    "grammars of any shape": """
        shapes = ["(" * 60_000, "(" * 5_000, '"' * 9, '("a"' * 90 + ")" * 90, '((("a"*)*)*)*',
                  '"a"{2000}{2000}', '("a"{0,2000}){0,2000}', "[\\\\ud800-\\\\udfff]", "[^\\\\U0010FFFF]",
                  "<[99999999999]>", "<[5]>", 'x root "a" | "c"\\nx ::= "b"?']
        for shape in shapes:
            write(grammar="root ::= " + shape)
        for schema in ("[" * 60_000, "{}", '{"$ref": "#"}', '{"type": "x"}', '{"enum": []}'):
            write(json_schema=schema)
        for regex in ("(" * 60_000, "(a{1000}){1000}{1000}", "", "(?<=a)b", "\\\\p{L}+", "[", "a/b", "\\n"):
            write(regex=regex)
    """,
    "rows that leave nothing to choose": """
        row = np.random.default_rng(0).normal(0.0, 3.0, engine.info.n_vocab).astype(np.float32)
        bad = (np.full_like(row, -np.inf), np.full_like(row, np.nan), np.full_like(row, np.inf),
               np.where(row > 0, np.nan, row).astype(np.float32), np.zeros_like(row), row * 1e30)
        for values in ({}, {"temperature": 0.0}, {"mirostat": 1}, {"mirostat": 2}, {"adaptive_target": 0.5},
                       {"typical_p": 0.5}, {"xtc_probability": 1.0},
                       {"dynatemp_range": 1.0}, {"top_n_sigma": 1.0}):
            for one in bad:
                write(row=one, **values)
    """,
    "sequence breakers of any kind": """
        breakers = ("—", "…\\n", "🦊" * 10, "a" * 40, "\\x7f", " ", "\\u0301")
        assert write(20, dry_multiplier=1.0, dry_sequence_breakers=breakers)
    """,
    "values at and beyond their ranges": """
        import random
        from srbwriter.engine.parameters import PARAMETERS, SAMPLERS
        dice = random.Random(7)
        numbers = [p for p in PARAMETERS if p.record == "sampling" and p.kind in ("int", "float")]
        made = 0
        for _ in range(400):
            values = {}
            for p in dice.sample(numbers, 6):
                low = p.minimum
                high = min(p.maximum, 1000)
                value = dice.choice([low, high, low + (high - low) * dice.random(), low - 1, 2.0 * high + 1])
                values[p.field] = int(value) if p.kind == "int" else float(value)
            if dice.random() < 0.5:
                values["samplers"] = tuple(dice.choices([*SAMPLERS, "unknown"], k=dice.randrange(8)))
            if dice.random() < 0.3:
                bias = dice.randrange(-1, engine.info.n_vocab + 1), dice.choice([-np.inf, 5.0])
                values["logit_bias"] = (bias,)
            made += write(**values)
        assert made > 20, made
    """,
}


def test_no_harm_is_done() -> None:
    child = run_child(_ENGINE, in_turn(_GUARDED.values()))
    assert child.returncode == 0, child.stderr
