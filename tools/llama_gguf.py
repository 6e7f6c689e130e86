"""The common fields of GGUF files of the llama architecture: sizes, byte-level BPE, the end token.

Needs only `gguf`, so that models can be made without PyTorch.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from gguf import GGUFWriter, TokenType


def add_sizes(
    writer: GGUFWriter, *, layers: int, width: int, hidden: int, heads: int, kv_heads: int, head_size: int,
    context: int, rope_base: float, eps: float, vocab: int,
) -> None:  # fmt: skip
    """The hyperparameters; `hidden` is the width within a feed-forward layer, `context` counts tokens."""
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(head_size)
    writer.add_rope_freq_base(rope_base)
    writer.add_layer_norm_rms_eps(eps)
    writer.add_vocab_size(vocab)


def add_vocabulary(
    writer: GGUFWriter, tokens: Sequence[str], merges: Sequence[str], special: Container[str], end: int,
    split: str = "gpt-2",
) -> None:  # fmt: skip
    """A byte-level BPE that splits text by the rule `split`; the token `end` begins and ends a text.

    `merges` are pairs as `left right`; `special` tokens are never made from typed text.
    """
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL if t in special else TokenType.NORMAL for t in tokens])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)


def write(writer: GGUFWriter) -> None:
    """Write the file of a writer that has everything, and close it."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
