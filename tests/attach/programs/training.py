import torch
from common import ready

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.Adam(model.parameters())


def step():
    loss = model(torch.randn(32, 64)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


step()  # torch starts its own threads with the first one
ready()
while True:
    step()
