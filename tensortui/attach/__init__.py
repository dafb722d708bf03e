"""Gets the agent into a process: finds it, diagnoses it, puts the agent in, times out, undoes."""

from tensortui.attach.attaching import attach
from tensortui.attach.bootstrap import bootstrap_source
from tensortui.attach.leftover import no_socket_left
from tensortui.attach.listening import listen
from tensortui.attach.rendezvous import Endpoint, find_endpoint

__all__ = [
    "Endpoint",
    "attach",
    "bootstrap_source",
    "find_endpoint",
    "listen",
    "no_socket_left",
]
