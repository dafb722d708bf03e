"""tensortui.listen(): an agent in the very process that asks for one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tensortui.attach import attach, find_endpoint

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import sys
sys.path.insert(0, {root!r})
import tensortui
from tensortui.attach import listen
first, second = listen(), listen()
assert first.fresh and first.how == "listen" and not second.fresh and first.path == second.path
assert tensortui.listen() == first.path
print("READY", flush=True)
sys.stdin.read()
"""


def test_listens_in_every_python(python, greet):
    command = [*python.split(), "-c", PROGRAM.format(root=str(ROOT))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "READY\n"
        endpoint = attach(process.pid)
        assert (endpoint.fresh, endpoint.how) == (False, "connected")
        greet(endpoint).detach()
        assert find_endpoint(process.pid) is None
        process.communicate("")
        assert process.returncode == 0


def test_says_why_it_cannot():
    code = PROGRAM.format(root=str(ROOT)).replace(
        "from tensortui.attach import listen",
        """
from tensortui.attach import errors, bootstrap, listen
bootstrap.socket_directories = lambda: ["/proc"]
try:
    listen()
except errors.AgentFailedError as error:
    print(error.cause)
sys.exit()
""",
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Error" in done.stdout and "could not start" in done.stdout
