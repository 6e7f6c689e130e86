"""A loop of your own over the engine, where every token is yours to decide. Runs with the bundled model.

python sequences.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Thread

from srbwriter.demo import bundled_model
from srbwriter.engine import Engine, EngineOptions, Request, Sampling, Stop


def write(engine: Engine, seqs: list[int], tokens: int) -> None:
    """Add as many tokens to each sequence; one ``llama_decode`` evaluates the next token of all of them."""
    low = engine.sequences
    for _ in range(tokens):
        chosen = {seq: low.sample(seq) for seq in seqs}  # or any other token: the logits are yours, too
        for seq, token in chosen.items():
            low.accept(seq, token)  # the sampler's penalties look back at it
        low.eval_many({seq: [token] for seq, token in chosen.items()})


def show(engine: Engine, title: str, seq: int) -> None:
    print(f"{title}: {engine.detokenize(engine.sequences.tokens(seq))!r}")


def ask(engine: Engine) -> None:
    """Submit a request from a thread that does not own the loop, and wait for its branches."""
    generation = engine.submit(Request("The king", n=2, stop=Stop(max_tokens=12)))
    for text in generation.result(timeout=60):
        print(f"asked: {'The king' + text!r}")


def tell(engine: Engine, session: Path) -> None:
    """Write with two sequences and serve a request beside them, then save the text of the first."""
    low = engine.sequences
    first = low.new_seq(Sampling(temperature=1.1, top_p=0.95), seed=1)
    logits = low.eval(first, engine.tokenize("Once upon a time, there was a", add_bos=engine.add_bos))
    print(f"likeliest: {engine.detokenize([int(logits.argmax())])!r}")

    second = low.fork(first, seed=2)  # on the same cells: nothing is evaluated or copied
    write(engine, [first, second], 12)
    show(engine, "second", second)
    low.truncate(second, len(low.tokens(second)) - 6)  # six tokens back, and on with other draws
    write(engine, [second], 6)
    show(engine, "second again", second)
    low.delete_seq(second)  # its cells can be used by others

    thread = Thread(target=ask, args=(engine,))
    thread.start()
    while thread.is_alive():
        if engine.process(timeout=0.1):  # a step: the next token of every branch that was asked for
            write(engine, [first], 1)  # and one of the sequence, between two steps
    show(engine, "first", first)
    engine.save_session(session, low.tokens(first))


def tell_on(engine: Engine, session: Path) -> None:
    """Go on from the saved text: what was evaluated for it is loaded, not evaluated again."""
    low = engine.sequences
    seq = low.new_seq(Sampling(temperature=0.8))
    low.eval(seq, engine.load_session(session))
    print(f"evaluated {engine.stats().prompt_rows} of {len(low.tokens(seq))} tokens")
    write(engine, [seq], 12)
    show(engine, "later", seq)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for part in (tell, tell_on):  # as if the program had been started twice
            with Engine.load(bundled_model(), EngineOptions(seed=1), thread=False) as engine:
                part(engine, Path(folder) / "story.session")
