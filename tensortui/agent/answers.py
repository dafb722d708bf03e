"""What the agent says: the welcome, samples with what changed for each viewer, graphs."""

import os
import time
from typing import Any, Dict, Iterator, List, Optional

from tensortui.agent import labels
from tensortui.agent.census import Work
from tensortui.agent.connections import Connection, Server
from tensortui.agent.governor import Governor
from tensortui.agent.picture import unpacked
from tensortui.agent.process import describe
from tensortui.agent.rows import Batch, Reader
from tensortui.agent.sampler import Sampler
from tensortui.wire.messages import PROTOCOLS, common_protocol

WAITING, SCANNING, LIVE = "waiting", "scanning", "live"
NO_TENSOR = {"cause": "There is no such tensor any more.", "next_step": "Look for what is there now."}
NO_GRAPH = {"roots": [], "nodes": [], "weights": [], "made": [], "cut": False, "reasons": []}
GRAPH_CHUNK = 100  # what the nodes in one frame weigh: well under a millisecond to encode
FAILURES, FAILED_FOR = 5, 60.0  # of the agent's own: how many are told, and for how many seconds after the last time
ARGUMENTS = vars(BaseException)["args"].__get__


class Answers:
    """Puts the messages together. `live` is set once the first scan is over."""

    def __init__(self, version: str, governor: Governor, server: Server) -> None:
        """Start with nothing said."""
        self.live = False
        self._version = version
        self._governor = governor
        self._server = server
        self._seq = 0
        self._failures: Dict[str, float] = {}  # when each was last met

    def failed(self, error: BaseException) -> str:
        """Note a failure of the agent's own for the coverage, and return the sentence."""
        # Not by str(): it may be an error of the program's, whose `__str__` is not for us to run.
        said = " ".join(str(one) for one in ARGUMENTS(error) if type(one) in (str, int))
        sentence = "the agent failed: %s: %s" % (labels.type_name(type(error)), labels.clip(labels.safe(said), 200))
        self._failures.pop(sentence, None)
        self._failures[sentence] = time.monotonic()
        while len(self._failures) > FAILURES:
            del self._failures[next(iter(self._failures))]
        return sentence

    def welcome(self, header: Dict[str, Any], torch: Any) -> Dict[str, Any]:
        """Return the answer to a hello."""
        return {
            "t": "welcome",
            "protocol": common_protocol(PROTOCOLS, header["protocols"]),
            "version": self._version,
            "pid": os.getpid(),
            "process": describe(torch),
            "budget": self._governor.budget,
        }

    def sample(self, one: Connection, sampler: Optional[Sampler], request: Any = None) -> Dict[str, Any]:
        """Return the message that closes a batch."""
        self._seq += 1
        now = time.monotonic()
        reasons = [sentence for sentence, at in self._failures.items() if now - at < FAILED_FOR]
        scanning = sampler is not None and not self.live
        if sampler is not None:
            reasons += sampler.reasons()
        message: Dict[str, Any] = {
            "t": "sample",
            "seq": self._seq,
            "taken_at": time.time(),
            "phase": WAITING if sampler is None else SCANNING if scanning else LIVE,
            "progress": sampler.progress if sampler is not None and scanning else None,
            "coverage": {"complete": not reasons, "reasons": reasons},
            "cost": {
                "share": round(self._governor.share(), 6),
                "budget": self._governor.budget,
                "longest_slice": round(self._governor.longest_slice, 6),
            },
        }
        if sampler is not None and sampler.readings.deepest.told:
            message["depths"] = sampler.readings.deepest.told
        if not one.process_told:
            one.process_told = True
            message["process"] = describe(None if sampler is None else sampler.torch)
        if request is not None:
            message["request"] = request
        return message

    def tell(self, one: Connection, sampler: Sampler, request: Any = None) -> Work:
        """Queue what changed since this viewer was last told, and the sample that closes it. No row changes meanwhile.

        A hundred thousand rows would take tens of milliseconds in one go: they are taken in pieces.
        """
        if not one.readers:
            one.readers = tuple(Reader(table) for table in sampler.tables)
        stale = any(reader.stale for reader in one.readers)
        batches: List[Batch] = []
        sampler.readings.frozen = True
        try:
            for reader in one.readers:
                if stale:
                    reader.restart()
                batches.append((yield from reader.batch()))
        finally:
            sampler.readings.frozen = False
        if stale:
            one.queue_frame({"t": "reset"})
        one.queue_batch(batches, self.sample(one, sampler, request))

    def forget_told(self, sampler: Sampler) -> Work:
        """Drop the deaths that every viewer has been told."""
        for place, table in enumerate(sampler.tables):
            serials = [one.readers[place].serial for one in self._server.connections if one.readers]
            yield from table.forget_gone(min(serials, default=table.serial))

    def without_tables(self, one: Connection, sampler: Optional[Sampler]) -> None:
        """Answer all that a viewer asks while there is nothing to show yet: torch is not imported."""
        requests, one.requests = one.requests, []
        for request in requests:
            one.send(self.sample(one, sampler, request))
        graphs, one.graphs = one.graphs, []
        for header in graphs:
            for message in graph_messages(header, NO_GRAPH):
                one.send(message)
        searches, one.searches = one.searches, []
        for header in searches:
            one.send({"t": "failed", "request": header["request"], **NO_TENSOR})


def graph_messages(header: Dict[str, Any], body: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """Yield the answer to a graph request, chunk by chunk: the roots with the first, then the nodes, what they made."""
    nodes, weights, made = body["nodes"], body["weights"], body["made"]
    told = {name: body[name] for name in ("roots", "cut", "reasons")}
    told.update(t="graph", request=header.get("request"))
    end, more = 0, True
    while more:
        start, weight = end, 0
        while end < len(nodes) and weight < GRAPH_CHUNK:
            weight += weights[end]
            end += 1
        more = end < len(nodes)
        yield {**told, "nodes": list(map(unpacked, nodes[start:end])), "more": more or bool(made)}
        told["roots"] = []
    for place, packed in enumerate(made, 1):
        yield {**told, "nodes": [], "made": [unpacked(packed)], "more": place < len(made)}
