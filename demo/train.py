"""A small language model in training, with things in it worth finding.

What to look for in the viewer:
  - `model.embed.weight` and `model.head.weight` are one tensor with two names;
  - query, key and value of each layer are three parameters on one storage;
  - `model.mask` looks large, but is one row expanded over the batch;
  - `trainer.sample` is a view of 16 KiB that keeps the whole first batch of features alive;
  - `trainer.outputs` grows by one tensor a step, each with the graph behind it: a leak;
  - gradients come with each backward and go with `zero_grad`.
"""

from __future__ import annotations

import argparse
import os
import time

import torch
from torch import nn

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 2000, 128, 4, 3, 64, 16


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        fused = torch.empty(3 * WIDTH, WIDTH)
        nn.init.xavier_uniform_(fused)
        self.query, self.key, self.value = (nn.Parameter(part) for part in fused.chunk(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        query, key, value = (
            (x @ weight.t()).view(batch, length, HEADS, -1).transpose(1, 2)
            for weight in (self.query, self.key, self.value)
        )
        scores = (query @ key.transpose(2, 3)) / (WIDTH // HEADS) ** 0.5
        mixed = (scores + mask[:batch]).softmax(-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x), mask)
        return x + self.feed(self.norms[1](x))


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.position = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight
        causal = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
        self.register_buffer("mask", causal.expand(BATCH, HEADS, LENGTH, LENGTH))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.position
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(x)


class Trainer:
    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
        features = torch.randn(4096, 1024)
        self.sample = features[5:9]  # 16 KiB in use, 16 MiB kept
        self.outputs: list[torch.Tensor] = []

    def step(self, number: int) -> float:
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH))
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(tokens)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        self.optimizer.step()
        if number < 2000:
            self.outputs.append(logits[0, :8].mean(-1))  # the mistake: it should be detached
        return loss.item()


def train(steps: int, pause: float) -> None:
    for number in range(steps):
        loss = trainer.step(number)
        if number == 0:
            print(f"READY {os.getpid()}", flush=True)
        print(f"step {number}  loss {loss:.4f}", flush=True)
        time.sleep(pause)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train a small language model on random tokens.")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--pause", type=float, default=0.25, help="seconds between steps")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = LanguageModel()
    trainer = Trainer(model)
    train(arguments.steps, arguments.pause)
