"""All programs of the cluster in one folder."""

from dataclasses import dataclass
from pathlib import Path

from localcluster.cache import cache_dir, exclusive
from localcluster.programs.prepare import PROGRAMS
from localcluster.programs.side_by_side import Job, run_lanes


@dataclass(frozen=True)
class Tools:
    """Programs by name in `bin_dir`: kubectl, helm, ctr, containerd, coredns, etcd and Kubernetes' components."""

    bin_dir: Path

    @property
    def kubectl(self) -> Path:
        """Kubernetes' command line."""
        return self.bin_dir / "kubectl"

    @property
    def helm(self) -> Path:
        """The package manager that installs the chart."""
        return self.bin_dir / "helm"

    @property
    def ctr(self) -> Path:
        """containerd's command line."""
        return self.bin_dir / "ctr"


def tools() -> Tools:
    """Build the missing programs with a progress line for each, and link all programs into one folder."""
    if any(program.seconds_left for program in PROGRAMS):
        run_lanes([Job(program, program.seconds_left) for program in PROGRAMS])
    folders = [program() for program in PROGRAMS]
    bin_dir = cache_dir() / "bin"
    with exclusive(cache_dir() / "locks" / "bin"):
        bin_dir.mkdir(parents=True, exist_ok=True)
        for program in (path for folder in folders for path in folder.iterdir()):
            _link(bin_dir / program.name, program)
    return Tools(bin_dir)


def _link(link: Path, target: Path) -> None:
    """Replace `link` with a link to `target` in one step, because another process may be starting the program."""
    if not link.is_symlink() or link.readlink() != target:
        draft = link.with_name(f".{link.name}.draft")
        draft.unlink(missing_ok=True)
        draft.symlink_to(target)
        draft.rename(link)
