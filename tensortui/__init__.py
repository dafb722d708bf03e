"""tensortui: attach to a running PyTorch process and see its tensors, storages and memory, live, in the terminal."""

from tensortui.version import VERSION

__version__ = VERSION

__all__ = ["__version__", "listen"]


def listen(*, budget: float = 0.01) -> str:
    """Start the agent in this very process, for viewers to connect to, and return the path of its socket.

    For programs that want to be looked at where attaching from outside is not allowed. The agent stays until the
    process ends or a viewer detaches it; `budget` is the fraction of the process's time that it may use.
    """
    from tensortui.attach import listen as attach_listen

    return attach_listen(budget=budget).path
