"""`python -m tensortui` and the `tensortui` command."""

import sys

from tensortui.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
