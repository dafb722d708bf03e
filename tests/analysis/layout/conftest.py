"""The tests beside this file share places, and strided_tensors with those of model/strided.py."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2])]
