"""A generator and a discriminator: two optimizers, and a graph that is used for one and cut for the other."""

import torch
from running import steps
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(16, 128), nn.LeakyReLU(0.2, inplace=True), nn.Linear(128, 64), nn.Tanh())
discriminator = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
for_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
for_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
fixed_noise = torch.randn(8, 16)
history = {"generator": [], "discriminator": []}

for number in steps():
    real = torch.randn(32, 64).tanh()
    ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)

    fake = generator(torch.randn(32, 16))
    for_discriminator.zero_grad()
    loss_real = criterion(discriminator(real), ones)
    loss_fake = criterion(discriminator(fake.detach()), zeros)
    loss_discriminator = loss_real + loss_fake
    loss_discriminator.backward()
    for_discriminator.step()

    for_generator.zero_grad()
    loss_generator = criterion(discriminator(fake), ones)
    loss_generator.backward()
    for_generator.step()

    history["generator"].append(loss_generator.item())
    history["discriminator"].append(loss_discriminator.item())
    if number % 50 == 0:
        with torch.no_grad():
            history["shown"] = generator(fixed_noise)
