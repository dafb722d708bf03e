"""Where samples come from, behind one protocol."""
