"""The trainer end to end on a toy corpus; skipped where PyTorch and its companions are not installed."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")
pytest.importorskip("gguf")
pytest.importorskip("tqdm")

from tokenizers import Tokenizer  # noqa: E402

from srbwriter.demo import bundled_model  # noqa: E402
from tools.demo_model import (  # noqa: E402
    average,
    data,
    export,
    gguf_io,
    growth,
    prepare,
    quantise,
    repeats,
    train,
)
from tools.demo_model.model import Config, Llama, chunked_attention  # noqa: E402
from tools.demo_model.runtime import open_model  # noqa: E402
from tools.demo_model.tokenizer import FIM, sample_texts, train_tokenizer  # noqa: E402

SMALL = Config(vocab=300, width=32, layers=2, heads=2, hidden=64, context=64, tied=False)
PROSE = [
    f"Tale {i}\n\nThe {w} went out, and the {w} came home — naïvely." for i, w in enumerate("abcdefgh" * 90)
]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with prepared text and a vocabulary."""
    root = tmp_path_factory.mktemp("demo")
    (root / "tinystories.txt").write_text(f"\n{prepare.SEPARATOR}\n".join(PROSE), encoding="utf-8")
    (root / "tales.txt").write_text("The Road\n\n" + "It was long. " * 200, encoding="utf-8")
    (root / "books.txt").write_text("The Sea\n\n" + "It was wide. " * 4000, encoding="utf-8")
    prepare.prepare(root, root)
    train_tokenizer(sample_texts(root / "text"), 300).save(str(root / "tokenizer.json"))
    return root


@pytest.fixture(scope="module")
def tokenizer(work: Path) -> Tokenizer:
    return Tokenizer.from_file(str(work / "tokenizer.json"))


def trained(seed: int = 0) -> Llama:
    """A small model whose every weight matters."""
    torch.manual_seed(seed)
    model = Llama(SMALL)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2, mean=1.0 if weight.ndim == 1 else 0.0)
    return model


def tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(0, 300, (rows, length), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("text", ["Zoë’s 雨 \t🐸\n\n\n!", "The a went out", ""])
def test_any_text_survives_the_vocabulary(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_packing_loses_nothing_and_fills_every_bin_within_bounds() -> None:
    lengths = [int(n) for n in np.random.default_rng(0).integers(1, 13, 500)]
    bins = data.best_fit(lengths, 32)
    assert sorted(i for members in bins for i in members) == list(range(500))
    assert all(sum(lengths[i] for i in members) <= 32 for members in bins)
    assert len(bins) <= sum(lengths) / 32 + 2


def test_blocks_hold_each_short_document_whole(work: Path, tokenizer: Tokenizer) -> None:
    docs = data.encode_register(work / "text" / "simple.txt", tokenizer)
    blocks = data.Packer([docs], tokenizer, 128, seed=1, plain=True).blocks
    shown = [list(row[row != data.IGNORED]) for row in blocks]
    found: list[list[int]] = []
    for ids in (i for row in shown for i in row):
        found.append([]) if ids == 0 else found[-1].append(int(ids))
    stories = [[int(i) for i in text] for text in docs.texts]
    assert sorted(story for story in found if story) == sorted(stories)
    assert len(shown) < len(stories) / 2


def test_a_hole_takes_nothing_away(tokenizer: Tokenizer) -> None:
    ids = np.array(tokenizer.encode(PROSE[0]).ids, np.uint16)
    marks = np.array([tokenizer.token_to_id(t) for t in FIM], np.uint16)
    holed = list(data.with_hole(ids, data.word_starts(tokenizer), marks, np.random.default_rng(1)))
    prefix, suffix, middle = (holed.index(m) for m in marks)
    assert prefix == 0 < suffix < middle
    assert holed[1:suffix] + holed[middle + 1 :] + holed[suffix + 1 : middle] == list(ids)


def test_batches_depend_on_seed_and_step_and_resume_where_they_stopped(
    work: Path, tokenizer: Tokenizer
) -> None:
    one, two = (data.Mixture(work / "text", tokenizer, 64, seed=5) for _ in range(2))
    for step in range(40):
        inputs, targets = one.batch(step, 4)
    np.testing.assert_array_equal(inputs[:, 1:][targets[:, 1:] >= 0], targets[:, :-1][targets[:, 1:] >= 0])
    two.restore(json.loads(json.dumps(one.state)))
    np.testing.assert_array_equal(one.batch(40, 4)[0], two.batch(40, 4)[0])


@pytest.mark.parametrize("length", [5, 128, 300])
def test_chunked_attention_is_causal_attention(length: int) -> None:
    q, k, v = torch.randn(3, 1, 2, length, 16, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(chunked_attention(q, k, v), expected)


def test_growth_computes_the_same() -> None:
    small = trained()
    wanted = replace(
        SMALL, layers=5, vocab=310, context=128, width=64, heads=3, head_size=SMALL.head_dim, hidden=96
    )
    grown = growth.grow(small, wanted)
    assert grown.config == wanted
    torch.testing.assert_close(grown(tokens(2, 20))[..., :300], small(tokens(2, 20)), rtol=1e-4, atol=1e-4)
    assert growth.origins(2, 5) == [(0, False), (0, True), (1, False), (1, True), (1, True)]


def options(work: Path, *extra: str) -> argparse.Namespace:
    shape = "--width 32 --layers 2 --heads 2 --hidden 64 --context 128 --block 64 --tokens 256 --long-every 3"
    run = f"--out {work} --warmup 2 --eval-every 6 --no-compile --device cpu"
    return train.parser().parse_args([*shape.split(), *run.split(), *extra])


def test_a_run_learns_stops_resumes_and_becomes_a_file_llama_cpp_agrees_with(
    work: Path, tmp_path: Path
) -> None:
    first = train.Trainer(options(work, "--steps", "500"))
    untrained = first.evaluate()["simple-dev"]
    for _ in range(3):
        first.train_step()
    first.save()
    (work / "finish").write_text("30")
    second = train.Trainer(options(work, "--steps", "500"))
    second.run()
    assert second.step == 33
    assert not (work / "finish").exists()
    assert second.evaluate()["simple-dev"] < untrained - 0.5
    model = export.load_checkpoint(work / "checkpoint.pt")
    text = " The a went out, and the a came home"
    ids = second.tokenizer.encode(text).ids
    file, small = tmp_path / "story.gguf", tmp_path / "small.gguf"
    gguf_io.write_model(file, model, second.tokenizer, export.GENERAL)
    quantise.quantise(file, small, "Q8_0")
    assert small.stat().st_size < file.stat().st_size
    runtime = open_model(file, n_ctx=128, logits_all=True)
    assert runtime.tokenize(text.encode(), add_bos=True) == [0, *ids]
    assert runtime.metadata["general.license"] == "mit"
    runtime.eval([0, *ids])
    expected = model(torch.tensor([[0, *ids]]))[0].detach().numpy()
    np.testing.assert_allclose(runtime.scores[: len(ids) + 1], expected, atol=0.05)
    runtime.close()


def test_a_model_comes_back_from_its_file_as_it_was(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model, file = trained(), tmp_path / "story.gguf"
    gguf_io.write_model(file, model, tokenizer, export.GENERAL)
    back = gguf_io.read_model(file)
    assert replace(back.config, eps=SMALL.eps) == SMALL
    assert back.config.eps == pytest.approx(SMALL.eps)
    torch.testing.assert_close(back(tokens(1, 30)), model(tokens(1, 30)), atol=0.02, rtol=0.02)
    assert gguf_io.read_vocabulary(file)[1] == gguf_io.merges_of(tokenizer)


def test_kept_weights_and_a_file_become_their_mean(work: Path, tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "text").symlink_to(work / "text")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    runner = train.Trainer(options(tmp_path, "--steps", "6", "--keep-every", "3"))
    runner.run()
    kept = sorted((tmp_path / "kept").iterdir())
    assert [path.name for path in kept] == ["000003.pt", "000006.pt"]
    file = tmp_path / "last.gguf"
    export.write(file, runner.model, tmp_path)
    mean = average.mean_model([*kept, file], [1, 1, 2]).state_dict()
    first = average.load(kept[0]).state_dict()
    for name, last in runner.model.state_dict().items():
        torch.testing.assert_close(mean[name], (first[name] + 3 * last) / 4, atol=1e-3, rtol=1e-3)


def test_samples_are_written_on_by_the_bundled_model() -> None:
    samples = list(repeats.write_on(bundled_model(), ["Once upon a time,", "The king"], seed=1))
    assert [sample.prompt for sample in samples] == ["Once upon a time,"] * 8 + ["The king"] * 8
    assert len({sample.text for sample in samples}) == 16


@pytest.fixture
def circling(work: Path, tmp_path: Path, tokenizer: Tokenizer) -> Path:
    """A working folder with a sample that repeats itself."""
    (tmp_path / "text").symlink_to(work / "text")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    text = " The a went out, and the a came home." * 3
    (tmp_path / repeats.FILE).write_text(json.dumps({"prompt": PROSE[0], "text": text}) + "\n")
    return tmp_path


def test_a_model_unlearns_to_repeat_itself_and_still_learns(circling: Path, tokenizer: Tokenizer) -> None:
    runs = [train.Trainer(options(circling, "--steps", "60", "--repeats", weight)) for weight in "01"]
    rows = repeats.Repeats(circling / repeats.FILE, tokenizer, 64, seed=1).batch(0, 4)
    inputs, targets = (torch.from_numpy(part) for part in rows)
    for runner in runs:
        for _ in range(60):
            runner.train_step()
    without, unlearned = (runner.model.unlikelihood(inputs, targets).item() for runner in runs)
    assert unlearned < without / 2
    before, after = (runner.evaluate()["simple-dev"] for runner in runs)
    assert after < before + 0.2
