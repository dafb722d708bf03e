"""One thread, inside a long computation in C with the GIL released: no thread to borrow, no bytecode."""

import hashlib
import sys

from common import ready

ready()
hashlib.pbkdf2_hmac("sha256", b"", b"", int(sys.argv[1]))
while True:
    pass
