"""Discovery without the agent's loop: a census of this very process, and passes run in a thread of their own."""

import gc
import threading
import time

import torch

from tensortui.agent import containers, graph, names
from tensortui.agent.census import SEPARATOR, Census, Context
from tensortui.agent.picture import unpacked
from tensortui.agent.readings import Readings
from tensortui.wire.messages import CATEGORIES


class Agent:
    """What the agent does of discovery, without its loop."""

    def __init__(self):
        gc.collect()  # what earlier tests left must not die in the middle of this one
        self.census = Census(time.monotonic)
        self.census.base = base = torch._C.TensorBase
        self.readings = Readings(torch, self.census)
        todo = [base]
        while todo:
            kind = todo.pop()
            self.census.types.ids.add(id(kind))
            todo += type.__subclasses__(kind)
        bags = ((torch.nn.Module, self.census.modules), (torch.optim.Optimizer, self.census.optimizers))
        for thing in gc.get_objects():
            order = containers.type_mro(type(thing))
            for base, into in bags:
                if any(one is base for one in order):
                    into.add(thing)
            if id(type(thing)) in self.census.types.ids:
                self.census.track(thing)

    def run(self, work, during=None):
        """Run a pass to its end in another thread; return what it returned. `during` runs after each piece."""
        box = []

        def drive():
            try:
                while True:
                    next(work)
                    if during is not None:
                        during()
            except StopIteration as end:
                box.append(end.value)

        thread = threading.Thread(target=drive)
        thread.start()
        thread.join()
        return box[0]

    def names(self, during=None):
        """Run a names pass; what it found is told by `of`."""
        self.context = Context(torch, self.census, [])
        self.complete = self.run(names.discover(self.context), during)
        return self

    def saved(self):
        """Run a graph pass."""
        self.context = Context(torch, self.census, [])
        self.complete = self.run(graph.discover(self.context))
        return self

    def graph(self, roots=None, limit=10_000):
        """Return the body of the graph message."""
        self.context = Context(torch, self.census, [])
        tracked = None if roots is None else [self.census.track(one).id for one in roots]
        body = self.run(graph.walk(self.context, tracked, limit))
        return {**body, "nodes": [unpacked(one) for one in body["nodes"]]}

    def of(self, tensor):
        """Return names and category of `tensor` in the last pass."""
        number = self.census.track(tensor).id
        names = self.context.names.get(number)
        return ([], None) if names is None else (split(names), CATEGORIES[self.context.categories[number]])


def split(names):
    """Return joined names as a list."""
    return names.split(SEPARATOR) if names else []
