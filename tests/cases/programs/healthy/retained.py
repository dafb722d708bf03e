"""Two losses keep a graph that they share: for a second backward, and for one after the first optimizer step."""

import torch
from running import steps
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64))
trunk = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
judge, classify = nn.Linear(64, 1), nn.Linear(64, 10)
for_generator = torch.optim.RMSprop(generator.parameters())
for_discriminator = torch.optim.RMSprop([*trunk.parameters(), *judge.parameters(), *classify.parameters()])

for _ in steps():
    real, fake = torch.randn(32, 64), generator(torch.randn(32, 16))
    features = trunk(real)
    loss_classes = nn.functional.cross_entropy(classify(features), torch.randint(10, (32,)))
    loss_judge = judge(trunk(fake)).mean() - judge(features).mean()
    for_discriminator.zero_grad()
    loss_classes.backward(retain_graph=True)
    loss_judge.backward(retain_graph=True)
    for_discriminator.step()

    loss_generator = -judge(trunk(fake)).mean()
    for_generator.zero_grad()
    loss_generator.backward()
    for_generator.step()
