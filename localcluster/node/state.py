"""The stored state of a started cluster. Other processes use this state to find or remove the cluster."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from localcluster.sandbox.addresses import Addresses
from localcluster.sandbox.processes import Identity

_FILE = "state.json"


@dataclass(frozen=True)
class State:
    """The state of one cluster. `pid` and `started` identify process 1 of its sandbox.

    `ready` is set after a complete start.
    """

    name: str
    profile: str
    slot: int
    pid: int
    started: int
    ready: bool = False

    @property
    def init(self) -> Identity:
        """Process 1 of the cluster's sandbox."""
        return Identity(self.pid, self.started)

    @property
    def addresses(self) -> Addresses:
        """The cluster's addresses."""
        return Addresses(self.slot)

    @property
    def health(self) -> str:
        """The cluster's health in one word, with the remedy after a crash."""
        if not self.init.alive:
            return "crashed: `up` starts it again, `down` removes its remains"
        return "ready" if self.ready else "starting"

    def write(self, run_dir: Path) -> None:
        """Write the state to `run_dir` in one step, so that a reader gets either the old or the new state."""
        draft = run_dir / f".{_FILE}"
        draft.write_text(json.dumps(asdict(self)))
        draft.rename(run_dir / _FILE)


def read_state(run_dir: Path) -> State | None:
    """Return the state of the cluster in `run_dir`, or None if there is no cluster."""
    try:
        return State(**json.loads((run_dir / _FILE).read_text()))
    except FileNotFoundError:
        return None
