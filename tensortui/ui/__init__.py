"""The screens: everything that a terminal shows, and nothing that decides what is true."""

import os

# Textual paints at most so many times a second; at its usual 60 a key waits up to 17 ms before its effect is seen.
# It is read once, when Textual is first imported, and must not stay behind for programs that are started from here.
if "TEXTUAL_FPS" not in os.environ:
    os.environ["TEXTUAL_FPS"] = "120"
    import textual.constants  # noqa: F401 - for its effect

    del os.environ["TEXTUAL_FPS"]
