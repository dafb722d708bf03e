"""tensortui: attach to a running PyTorch process and see its tensors, storages and memory, live, in the terminal."""

from tensortui.version import VERSION as __version__

__all__ = ["__version__"]
