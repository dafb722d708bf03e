"""What runs inside the target: standard library, the target's torch and wire; Python 3.9 syntax."""
