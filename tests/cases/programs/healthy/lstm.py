"""A language model over a stream: the LSTM's state is carried from chunk to chunk, detached between them."""

import torch
from running import steps
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
VOCABULARY, WIDTH, BATCH, LENGTH = 100, 64, 8, 16


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, state, hidden):
        out, state = self.lstm(self.embed(tokens), state)
        outputs = []
        for at in range(out.shape[1]):
            hidden = self.cell(out[:, at], hidden)
            outputs.append(hidden)
        return self.head(torch.stack(outputs, 1)), state, hidden


def main():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    stream = torch.randint(VOCABULARY, (BATCH, 64 * LENGTH + 1))
    state, hidden = None, torch.zeros(BATCH, WIDTH)

    for number in steps():
        at = number % 64 * LENGTH
        tokens, targets = stream[:, at : at + LENGTH], stream[:, at + 1 : at + LENGTH + 1]
        hidden = hidden.detach()
        if state is not None:
            state = tuple(one.detach() for one in state)
        logits, state, hidden = model(tokens, state, hidden)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()


main()
