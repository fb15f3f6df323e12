"""What is known of a started cluster: enough for another process to use it and to take it down."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from localcluster.addresses import Addresses
from localcluster.processes import Identity

_FILE = "state.json"


@dataclass(frozen=True)
class State:
    """One cluster: `pid` and `started` identify process 1 of its sandbox; `ready` when it was started wholly."""

    name: str
    profile: str
    slot: int
    pid: int
    started: int
    ready: bool = False

    @property
    def init(self) -> Identity:
        """Process 1 of its sandbox."""
        return Identity(self.pid, self.started)

    @property
    def addresses(self) -> Addresses:
        """Its addresses."""
        return Addresses(self.slot)

    @property
    def health(self) -> str:
        """One word for people, and what to do where something is to be done."""
        if not self.init.alive:
            return "crashed: `up` starts it again, `down` clears it away"
        return "ready" if self.ready else "starting"

    def write(self, run_dir: Path) -> None:
        """Keep it in `run_dir`, in one step: a reader sees the old or the new, never half of one."""
        draft = run_dir / f".{_FILE}"
        draft.write_text(json.dumps(asdict(self)))
        draft.rename(run_dir / _FILE)


def read_state(run_dir: Path) -> State | None:
    """What was started in `run_dir`, or None."""
    try:
        return State(**json.loads((run_dir / _FILE).read_text()))
    except FileNotFoundError:
        return None
