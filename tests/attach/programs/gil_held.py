import ctypes
import sys

from common import ready

ready()
ctypes.PyDLL(None).sleep(int(sys.argv[1]))  # a PyDLL call keeps the GIL
print("OVER", flush=True)
while True:
    pass
