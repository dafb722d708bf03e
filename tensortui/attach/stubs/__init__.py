"""The machine code that runs in the target: assembly sources, and the bytes made from them."""
