"""What the runtime tells its workers, by an environment variable that vLLM's processes inherit."""

import os
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

VARIABLE = "GAUDI_RUNTIME_WORKER_ORDERS"


class Orders(BaseModel):
    """`failures` is a file that a worker writes when it cannot start; `runtime_pid` is whom it must not outlive."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    execution_mode: str
    failures: str
    runtime_pid: int


def give_orders(orders: Orders) -> dict[str, str]:
    """The environment that carries `orders`."""
    return {VARIABLE: orders.model_dump_json()}


def read_orders(environment: Mapping[str, str] = os.environ) -> Orders:
    """The orders of this process. Raises KeyError outside of a process that the runtime started."""
    return Orders.model_validate_json(environment[VARIABLE])
