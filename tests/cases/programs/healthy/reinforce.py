"""Policy gradient: one forward pass each move of an episode, all of them kept for the one backward at its end."""

import time

import torch
from running import steps
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

for _ in steps():
    chances, rewards = [], []
    state = torch.randn(4)
    for _move in range(40):
        moves = torch.distributions.Categorical(logits=policy(state))
        move = moves.sample()
        chances.append(moves.log_prob(move))
        rewards.append(float(move))
        state = torch.randn(4)
        time.sleep(0.002)
    weights = torch.tensor(rewards)
    losses = [-chance * weight for chance, weight in zip(chances, weights - weights.mean(), strict=True)]
    optimizer.zero_grad()
    loss = torch.stack(losses).sum()
    loss.backward()
    optimizer.step()
