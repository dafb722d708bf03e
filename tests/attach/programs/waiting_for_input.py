import sys

from common import ready

ready()
for line in sys.stdin:
    print(line.strip(), flush=True)
