"""Samplers and grammars that would end a process in llama.cpp come to no harm here."""

from __future__ import annotations

from . import in_turn, run_child

_GUARDED = {
    "a NULL sampler in a chain": """
        import ctypes
        from srbwriter.engine.native import samplers
        from srbwriter.engine.native.library import L
        null = ctypes.cast(0, L.llama_sampler_p_ctypes)
        for members, selector in (([null], samplers.make("greedy")), ([], null)):
            try:
                samplers.join(members, selector)
            except NativeError:
                continue
            raise SystemExit("NULL got into a chain")
    """,
    "adaptive-p in many branches": """
        from srbwriter.engine.sampling import SamplerTemplate
        template = SamplerTemplate(Sampling(adaptive_target=0.5, repeat_penalty=1.2), model)
        template.prime([5, 6, 7])
        chains = [template.new(k, [8, 9]) for k in range(8)]
        for _ in range(50):
            for chain in chains:
                chain.accept(chain.pick(row))
                chain.accept(3)  # typed, not picked
    """,
    "tokens that a constraint rejects": """
        from srbwriter.engine.constraints import compile_constraint
        for sampling in (Sampling(grammar='root ::= "yes"'), Sampling(regex="yes")):
            constraint = compile_constraint(sampling, model)
            for token in (model.token("x"), min(model.eog), -1, model.n_vocab, 2**40):
                assert not constraint.allows(token)
            assert constraint.mask(row.copy())
    """,
    "grammars of any shape": """
        from srbwriter.engine.constraints import compile_constraint
        shapes = ["(" * 200_000, "(" * 5_000, '"' * 9, '("a"' * 90 + ")" * 90, '((("a"*)*)*)*',
                  '"a"{2000}{2000}', '("a"{0,2000}){0,2000}', "[\\\\ud800-\\\\udfff]", "[^\\\\U0010FFFF]",
                  "<[99999999999]>", "<[5]>", 'x root "a" | "c"\\nx ::= "b"?']
        for shape in shapes:
            try:
                constraint = compile_constraint(Sampling(grammar="root ::= " + shape), model)
            except InvalidRequest:
                continue
            constraint.mask(row.copy())
        for schema in ("[" * 100_000, "{}", '{"$ref": "#"}', '{"type": "x"}', '{"enum": []}'):
            try:
                compile_constraint(Sampling(json_schema=schema), model).mask(row.copy())
            except InvalidRequest:
                continue
        for regex in ("(" * 100_000, "(a{1000}){1000}{1000}", "", "(?<=a)b", "\\\\p{L}+", "[", "a/b", "\\n"):
            try:
                compile_constraint(Sampling(regex=regex), model).mask(row.copy())
            except InvalidRequest:
                continue
    """,
    "rows that leave nothing to choose": """
        from srbwriter.engine.sampling import SamplerTemplate
        samplings = [Sampling(), Sampling(temperature=0.0), Sampling(mirostat=1), Sampling(mirostat=2),
                     Sampling(adaptive_target=0.5), Sampling(typical_p=0.5), Sampling(infill=True),
                     Sampling(xtc_probability=1.0), Sampling(dynatemp_range=1.0), Sampling(top_n_sigma=1.0)]
        one = np.full_like(row, -np.inf)
        one[7] = 1.0
        for sampling in samplings:
            chain = SamplerTemplate(sampling, model).new(1)
            for bad in (np.full_like(row, -np.inf), np.full_like(row, np.nan), np.full_like(row, np.inf),
                        np.where(row > 0, np.nan, row).astype(np.float32), np.zeros_like(row), row * 1e30):
                assert 0 <= chain.pick(bad) < model.n_vocab
            if not sampling.infill:
                assert chain.pick(one) == 7
    """,
    "infill before anything truncates": """
        from srbwriter.engine.sampling import SamplerTemplate
        chain = SamplerTemplate(Sampling(samplers=("infill",), infill=True), model).new(1)
        assert chain.pick(row) >= 0
    """,
    "sequence breakers of any kind": """
        from srbwriter.engine.sampling import SamplerTemplate
        breakers = ("—", "…\\n", "🦊" * 30, "a" * 40, "\\x7f", " ", "\\u0301")
        template = SamplerTemplate(Sampling(dry_multiplier=1.0, dry_sequence_breakers=breakers), model)
        chain = template.new(1, list(range(200)) * 3)
        for _ in range(20):
            chain.accept(chain.pick(row))
    """,
    "values at and beyond their ranges": """
        import dataclasses, random
        from srbwriter.engine.parameters import PARAMETERS
        from srbwriter.engine.sampling import SamplerTemplate
        from srbwriter.engine.parameters import SAMPLERS
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
                values["logit_bias"] = ((dice.randrange(-1, model.n_vocab + 1), dice.choice([-np.inf, 5.0])),)
            try:
                template = SamplerTemplate(Sampling(**values), model)
            except InvalidRequest:
                continue
            template.prime([1, 2, 3, 1, 2, 3])
            chain = template.new(made, [4, 5])
            for _ in range(3):
                token = chain.pick(row)
                assert 0 <= token < model.n_vocab
                chain.accept(token)
            chain.close()
            template.close()
            made += 1
        assert made > 20, made
    """,
}


def test_no_harm_is_done() -> None:
    child = run_child(in_turn(_GUARDED.values()))
    assert child.returncode == 0, child.stderr
