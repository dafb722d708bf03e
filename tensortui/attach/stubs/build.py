"""Assemble the .S files here into code.py: `python -m tensortui.attach.stubs.build` (needs gcc, objcopy and nm)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SYMBOLS = {"region": ("entry", "pending", "tstart", "nowhere"), "stage": ("constants",)}


def assemble(name: str) -> tuple[bytes, dict[str, int]]:
    """Return the machine code of `name`.S and the offsets of its symbols."""
    with tempfile.TemporaryDirectory() as folder:
        obj, raw = Path(folder, "stub.o"), Path(folder, "stub.bin")
        subprocess.run(["gcc", "-c", "-o", obj, HERE / f"{name}.S"], check=True)
        subprocess.run(["objcopy", "-O", "binary", "-j", ".text", obj, raw], check=True)
        listing = subprocess.run(["nm", obj], check=True, capture_output=True, text=True).stdout
        offsets = {line.split()[2]: int(line.split()[0], 16) for line in listing.splitlines()}
        return raw.read_bytes(), {symbol: offsets[symbol] for symbol in SYMBOLS[name]}


def render() -> str:
    """Return the text of code.py."""
    lines = ['"""Machine code made from the .S files by build.py: change those, not this."""']
    for name in SYMBOLS:
        code, offsets = assemble(name)
        lines += ["", f"{name.upper()} = bytes.fromhex("]
        lines += [f'    "{code[i : i + 48].hex()}"' for i in range(0, len(code), 48)]
        lines += [")"]
        lines += [f"{name.upper()}_{symbol.upper()} = 0x{offset:X}" for symbol, offset in offsets.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    HERE.joinpath("code.py").write_text(render())
