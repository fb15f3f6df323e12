"""The cgroup of all pods of a node, for cgroup v1 and v2."""

from pathlib import Path

from localcluster.errors import LocalClusterError
from localcluster.sandbox.processes import wait_until

ROOT = Path("/sys/fs/cgroup")


def prepare(name: str, root: Path = ROOT) -> None:
    """Create an empty cgroup `name` with all controllers in every hierarchy."""
    remove(name, root)
    try:
        if _unified(root):
            _delegate(root)
        for hierarchy in _hierarchies(root):
            (hierarchy / name).mkdir()
            _allow_all_cpus(hierarchy, name)
    except OSError as error:
        raise LocalClusterError(
            f"Creating a cgroup failed ({error}): mount {root} writable, in a container with `--privileged`."
        ) from error


def remove(name: str, root: Path = ROOT) -> None:
    """Remove the cgroup and all cgroups below it, after their processes have ended."""
    wait_until(lambda: all(_delete(folder / name) for folder in _hierarchies(root)), f"cgroup {name} to be empty", 10)


def _unified(root: Path) -> bool:
    return (root / "cgroup.controllers").exists()


def _hierarchies(root: Path) -> list[Path]:
    """Return the hierarchy of v2, or all hierarchies of v1. Links such as `cpu` -> `cpu,cpuacct` count once."""
    if _unified(root):
        return [root]
    return sorted({folder.resolve() for folder in root.iterdir() if (folder / "cgroup.procs").exists()})


def _delegate(root: Path) -> None:
    """Enable v2's controllers for children of `root`.

    The kernel refuses this while `root` itself has processes, unless `root` is the machine's root cgroup. In a
    container it is not, so the processes of `root` are first moved one level down.
    """
    if (root / "cgroup.type").exists():
        (root / "init").mkdir(exist_ok=True)
        for pid in (root / "cgroup.procs").read_text().split():
            (root / "init" / "cgroup.procs").write_text(pid)
    for controller in (root / "cgroup.controllers").read_text().split():
        (root / "cgroup.subtree_control").write_text(f"+{controller}")


def _allow_all_cpus(hierarchy: Path, name: str) -> None:
    """Allow all CPUs, because a new cpuset of v1 is empty and no process can run in it."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        parent_file = hierarchy / file
        if parent_file.exists() and not _unified(hierarchy):
            (hierarchy / name / file).write_text(parent_file.read_text())


def _delete(cgroup: Path) -> bool:
    if not cgroup.exists():
        return True
    folders = [folder for folder in cgroup.rglob("*") if folder.is_dir()]
    try:
        for folder in (*sorted(folders, reverse=True), cgroup):
            folder.rmdir()
    except OSError:
        return False
    return True
