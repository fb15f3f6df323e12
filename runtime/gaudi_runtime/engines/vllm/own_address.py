"""By which address vLLM's processes of this pod are reached: it would otherwise guess, by a route to the internet."""

import os
import socket

from gaudi_runtime.engines.protocol import Meeting

VARIABLE = "VLLM_HOST_IP"


def tell_own_address(meeting: Meeting) -> None:
    """Set vLLM's variable, unless somebody knows better (`engine.env`)."""
    os.environ.setdefault(VARIABLE, address_towards(meeting))


def address_towards(meeting: Meeting) -> str:
    """This machine's address on the way to where the processes meet; nothing is sent."""
    family = socket.AF_INET6 if ":" in meeting.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect(meeting)
        return str(way.getsockname()[0])
