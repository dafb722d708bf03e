"""Where samples come from, behind one protocol."""

from tensortui.sources.live import ConnectionFailedError, LiveSource
from tensortui.sources.protocol import Source

__all__ = ["ConnectionFailedError", "LiveSource", "Source"]
