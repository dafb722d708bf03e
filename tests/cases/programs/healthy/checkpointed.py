"""A transformer whose layers run their forward again in backward, in both ways torch.utils.checkpoint has."""

import sys

import torch
from running import steps
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
torch.manual_seed(0)
WIDTH, LENGTH = 64, 16


class Model(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.embed = nn.Embedding(200, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True, norm_first=True) for _ in range(3)
        )
        self.head = nn.Linear(WIDTH, 200)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return self.head(x)


model = Model(reentrant=sys.argv[1] == "reentrant")
optimizer = torch.optim.AdamW(model.parameters())

for _ in steps():
    tokens = torch.randint(200, (4, LENGTH))
    logits = model(tokens)
    loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
