"""`python -m tensortui` and the `tensortui` command."""

import sys


def main() -> int:
    """Run the command line; a Ctrl-C while it is still being loaded ends it as quietly as one later on."""
    try:
        from tensortui.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
