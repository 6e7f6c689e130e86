"""Step 2: the vocabulary, a byte-level BPE that takes any UTF-8 text. Knows no model.

It is trained on the prepared text, or taken over from a GGUF file whose model is to be grown; in both
cases the special tokens that the file lacks are appended.

    python -m tools.demo_model.tokenizer --out WORK [--size 4096 | --init-gguf FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from tools.demo_model.prepare import REGISTERS, SEPARATOR, documents

#: Begins and ends every document; id 0.
END = SEPARATOR
#: Fill-in-the-middle marks, in the order in which a document shows them: prefix, suffix, middle.
FIM = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
SPECIAL = (END, *FIM)


def byte_level(model: models.BPE) -> Tokenizer:
    """A tokenizer that splits text as GPT-2 does (`gpt-2` in GGUF) and merges with `model`."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def train_tokenizer(texts: Iterator[str], size: int) -> Tokenizer:
    """Train `size` entries, the special tokens among them; `END` has id 0."""
    tokenizer = byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def from_vocabulary(tokens: list[str], merges: list[str]) -> Tokenizer:
    """The tokenizer of a GGUF file's token and merge lists, with missing special tokens appended."""
    pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
    tokenizer = byte_level(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL])
    if tokenizer.token_to_id(END) != 0:
        raise ValueError(f"{END} is not token 0: this vocabulary was not made by this trainer")
    return tokenizer


def sample_texts(folder: Path, per_register: int = 12_000_000) -> Iterator[str]:
    """Documents of each register up to so many characters, so that no register rules the vocabulary."""
    for register in REGISTERS:
        room = per_register
        for document in documents(folder / f"{register.name}.txt"):
            if room <= 0:
                break
            yield document[:room]
            room -= len(document)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the vocabulary, or take it from a GGUF file.")
    parser.add_argument("--out", type=Path, required=True, help="working folder, prepared")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--size", type=int, default=8192, help="entries to train (default %(default)s)")
    source.add_argument("--init-gguf", type=Path, help="take the vocabulary of this model")
    args = parser.parse_args()
    if args.init_gguf:
        from tools.demo_model.gguf_io import read_vocabulary

        tokenizer = from_vocabulary(*read_vocabulary(args.init_gguf))
    else:
        tokenizer = train_tokenizer(sample_texts(args.out / "text"), args.size)
    path = args.out / "tokenizer.json"
    tokenizer.save(str(path))
    print(f"{path}: {tokenizer.get_vocab_size()} entries")


if __name__ == "__main__":
    main()
