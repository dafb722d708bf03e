"""Length-prefixed frames: a JSON header and a binary payload.

A frame is `u32 header length, u32 payload length` (little endian), the header (ASCII JSON, an object with a string
"t"), the payload. Both lengths are bounded, so that a hostile peer can cost neither memory nor time.
"""

import json
import struct
from typing import Any, Dict, List, Tuple

MAX_HEADER = 8 << 20
MAX_PAYLOAD = 32 << 20
PREFIX = struct.Struct("<II")

Header = Dict[str, Any]


class WireError(Exception):
    """The peer sent something that is not a frame of ours. The connection is of no further use."""


def encode(header: Header, payload: bytes = b"") -> bytes:
    """Return the frame for `header` and `payload`. Raises WireError when either is over its bound."""
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(text) > MAX_HEADER or len(payload) > MAX_PAYLOAD:
        raise WireError("frame too large: header %d, payload %d bytes" % (len(text), len(payload)))
    return PREFIX.pack(len(text), len(payload)) + text + payload


class Decoder:
    """Turns a stream of bytes into frames. The bounds may be lowered (the agent's side does).

    `max_brackets` bounds how deep a header can be nested: json parses it by recursion in C, and the agent's thread has
    the stack and the recursion limit that the target chose, with which that may overflow.
    """

    def __init__(
        self, max_header: int = MAX_HEADER, max_payload: int = MAX_PAYLOAD, max_brackets: int = MAX_HEADER
    ) -> None:
        """Start with nothing received."""
        self._max_brackets = max_brackets
        self._buffer = bytearray()
        self._max_header = max_header
        self._max_payload = max_payload

    def feed(self, data: bytes) -> List[Tuple[Header, bytes]]:
        """Add `data`, return the frames that are complete now. Raises WireError on anything malformed."""
        buffer = self._buffer
        buffer += data
        frames = []
        start = 0
        while len(buffer) - start >= PREFIX.size:
            header_length, payload_length = PREFIX.unpack_from(buffer, start)
            if header_length > self._max_header or payload_length > self._max_payload:
                raise WireError("frame of %d + %d bytes is over the bound" % (header_length, payload_length))
            end = start + PREFIX.size + header_length + payload_length
            if len(buffer) < end:
                break
            middle = start + PREFIX.size + header_length
            text = bytes(buffer[start + PREFIX.size : middle])
            if text.count(b"[") + text.count(b"{") > self._max_brackets:
                raise WireError("header with more than %d brackets" % self._max_brackets)
            frames.append((_header(text), bytes(buffer[middle:end])))
            start = end
        del buffer[:start]
        return frames


def _no_number(text: str) -> None:
    raise ValueError("%s is no number of JSON" % text)


def _header(text: bytes) -> Header:
    try:
        header = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise WireError("header is not JSON: %s" % error) from None
    if not isinstance(header, dict) or not isinstance(header.get("t"), str):
        raise WireError("header is not an object with a type")
    return header
