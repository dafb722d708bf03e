"""Frames and messages that both sides speak. Standard library alone, Python 3.9 syntax: it also runs in the target."""
