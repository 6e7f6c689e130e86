"""The llama architecture in PyTorch, no larger than a small model needs. Knows no text and no file format.

Pre-norm RMSNorm, rotary positions, SwiGLU, no biases, full multi-head attention, tied or untied head.
Query and key rows are kept in the half-split order that vectorises well; `gguf_io` converts them
to the interleaved order of GGUF.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

#: Up to this length explicit attention in blocks of `CHUNK` queries beats PyTorch's CPU kernel two to one.
CHUNKED_LIMIT = 1024
CHUNK = 128


@dataclass(frozen=True)
class Config:
    """Shape of a model; the field names follow the llama papers, sizes are counts."""

    vocab: int = 4096
    width: int = 256
    layers: int = 5
    heads: int = 8
    hidden: int = 704
    context: int = 2048
    theta: float = 10_000.0
    eps: float = 1e-5
    tied: bool = True
    #: Elements of one head; 0: all heads together are as wide as the model.
    head_size: int = 0

    @property
    def head_dim(self) -> int:
        return self.head_size or self.width // self.heads

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)


def rotary_tables(config: Config) -> tuple[Tensor, Tensor]:
    """Cosines and sines, each `context` × `head_dim`/2, of the angles position · theta^(-2i/head_dim)."""
    steps = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
    angles = torch.outer(torch.arange(config.context, dtype=torch.float64), config.theta**-steps)
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def chunked_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention over blocks of queries that each look only at the keys before their end."""
    length, scale, outs = q.shape[2], 1 / math.sqrt(q.shape[3]), []
    for start in range(0, length, CHUNK):
        stop = min(start + CHUNK, length)
        scores = q[:, :, start:stop] @ k[:, :, :stop].transpose(-1, -2) * scale
        size = stop - start
        future = torch.full((size, size), float("-inf"), dtype=scores.dtype, device=scores.device).triu(1)
        scores = torch.cat((scores[..., :start], scores[..., start:] + future), dim=-1)
        outs.append(torch.softmax(scores.float(), dim=-1).to(q.dtype) @ v[:, :, :stop])
    return torch.cat(outs, dim=2)


class Block(nn.Module):
    """One transformer layer: attention and SwiGLU, both pre-norm and residual."""

    def __init__(self, config: Config, dropout: float) -> None:
        super().__init__()
        width, hidden = config.width, config.hidden
        self.dropout = dropout
        self.heads = config.heads
        self.attn_norm = RMSNorm(width, config.eps)
        self.ffn_norm = RMSNorm(width, config.eps)
        inner = config.heads * config.head_dim
        self.q, self.k, self.v = (nn.Linear(width, inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, self.heads, -1).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if x.device.type == "cpu" and length <= CHUNKED_LIMIT:
            mixed = chunked_attention(q, k, v)
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(batch, length, -1))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.thin(self.attend(self.attn_norm(x), cos, sin))
        h = self.ffn_norm(x)
        return x + self.thin(self.down(F.silu(self.gate(h)) * self.up(h)))

    def thin(self, x: Tensor) -> Tensor:
        """Dropout of whole features, the same at every position of a row (Gal and Ghahramani 2016).

        Drawing a number for every element would take longer than the layer itself on a CPU.
        """
        if not (self.training and self.dropout):
            return x
        return x * F.dropout(torch.ones(len(x), 1, x.shape[2], dtype=x.dtype, device=x.device), self.dropout)


class Llama(nn.Module):
    """A decoder-only language model; `forward` gives logits, `loss` nats per target token."""

    cos: Tensor
    sin: Tensor

    def __init__(self, config: Config, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.width)
        self.blocks = nn.ModuleList(Block(config, dropout) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, config.eps)
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        self.initialise()
        if config.tied:
            self.head.weight = self.embed.weight
        cos, sin = rotary_tables(config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def initialise(self) -> None:
        """Normal weights of deviation width^-½; projections into the residual stream start at zero."""
        for name, weight in self.named_parameters():
            if name.endswith(("o.weight", "down.weight")):
                nn.init.zeros_(weight)
            elif name.startswith(("embed", "head")):
                nn.init.normal_(weight, std=0.02)
            elif weight.ndim == 2:
                nn.init.normal_(weight, std=weight.shape[1] ** -0.5)

    def hidden(self, tokens: Tensor) -> Tensor:
        """The residual stream after the last block."""
        length = tokens.shape[1]
        cos, sin = self.cos[:length], self.sin[:length]
        x = self.embed(tokens)
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        for block in self.blocks:
            x = block(x, cos, sin)
        return x

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.hidden(tokens)))

    def loss_of(self, x: Tensor, targets: Tensor) -> Tensor:
        logits = self.head(self.norm(x)).float().flatten(0, 1)
        return F.cross_entropy(logits, targets.flatten(), ignore_index=-100)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy in nats; targets of -100 are not counted."""
        return self.loss_of(self.hidden(tokens), targets)

    def unlikelihood(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean of −ln(1 − p) in nats over the targets, which are better not said; -100 are not counted.

        Welleck et al. 2020, arXiv:1908.04319.
        """
        counted = targets >= 0
        logits = self.head(self.norm(self.hidden(tokens)[counted])).float()
        probability = logits.log_softmax(-1).gather(-1, targets[counted][:, None]).exp()
        return -torch.log1p(-probability.clamp(max=0.9999)).sum() / max(1, len(probability))

    def compile_parts(self) -> None:
        """Compile one layer, shared by all, and the loss: a fraction of the whole graph's compile time."""
        for block in self.blocks:
            block.compile(dynamic=False)
        self.loss_of = torch.compile(self.loss_of, dynamic=False)

    def count(self) -> int:
        """Number of trained parameters, shared ones once."""
        return sum(p.numel() for p in self.parameters())
