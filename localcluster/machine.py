"""The sandbox that a node runs in, and the removal of one, whoever started it."""

import os
import shutil
import subprocess
from pathlib import Path

from localcluster import cgroups, network, slots
from localcluster.addresses import SLOTS
from localcluster.cache import cache_dir
from localcluster.errors import LocalClusterError
from localcluster.processes import wait_gone
from localcluster.sandbox import Sandbox
from localcluster.state import State, read_state

# Where the kubelet, CNI and containerd write outside the folders that they are given: private to a sandbox.
_PRIVATE = ("/run", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers")

# containerd's folders: blobs of images, unpacked layers, and what it knows of both.
_CONTENT = "io.containerd.content.v1.content"
_LAYERS = "io.containerd.snapshotter.v1.overlayfs"
_RECORDS = "io.containerd.metadata.v1.bolt"


def open_sandbox(run_dir: Path, name: str, profile: str) -> tuple[Sandbox, State]:
    """Start an isolated sandbox in a free slot, connected to the machine, and write down what was started."""
    slot, lock = slots.take()
    try:
        sandbox = Sandbox.create(isolated=True, keep=[lock])
    finally:
        os.close(lock)
    state = State(name, profile, slot, sandbox.init.pid, sandbox.init.started)
    run_dir.mkdir(parents=True, exist_ok=True)
    state.write(run_dir)
    sandbox.run("mount", "--make-rshared", "/")
    for folder in _PRIVATE:
        Path(folder).mkdir(parents=True, exist_ok=True)
        sandbox.run("mount", "-t", "tmpfs", "-o", "mode=755", "private", folder)
    network.connect(sandbox, state.addresses)
    return sandbox, state


def image_store(slot: int) -> Path:
    """Folder of the images of nodes in `slot`; it stays, so that an image is imported once per machine."""
    return cache_dir() / "image-store" / str(slot)


def share_images(source: int, nodes: int) -> None:
    """Let up to `nodes` nodes at once begin with the images that the node in slot `source` had; it must have ended.

    Their files are links to the same ones, which nothing writes to once they are there: no time, no room on the disk.
    """
    with slots.held(source) as unused:
        if not unused:
            raise LocalClusterError(f"The node in slot {source} runs: stop it before others take over its images.")
        for slot in [slot for slot in range(SLOTS) if slot != source][: nodes - 1]:
            with slots.held(slot) as free:
                if free and _blobs(image_store(slot)) != _blobs(image_store(source)):
                    _link_store(image_store(source), image_store(slot))


def _blobs(store: Path) -> set[str]:
    folder = store / _CONTENT / "blobs" / "sha256"
    return {blob.name for blob in folder.iterdir()} if folder.exists() else set()


def _link_store(store: Path, fresh: Path) -> None:
    draft = fresh.with_name(f".{fresh.name}.draft")
    for folder in (draft, fresh):
        shutil.rmtree(folder, ignore_errors=True)
    draft.mkdir()
    subprocess.run(["cp", "--archive", "--link", store / _CONTENT, store / _LAYERS, draft], check=True)
    # Written in place, unlike blobs and layers: each node has its own.
    shutil.copytree(store / _RECORDS, draft / _RECORDS)
    (draft / _LAYERS / "metadata.db").unlink()
    shutil.copy2(store / _LAYERS / "metadata.db", draft / _LAYERS)
    draft.rename(fresh)


def remove_image_stores() -> None:
    """Remove the images of all nodes that do not run."""
    for store in (cache_dir() / "image-store").glob("*"):
        with slots.held(int(store.name)) as unused:
            if unused:
                shutil.rmtree(store)


def clean_up(run_dir: Path) -> None:
    """Remove what was started in `run_dir`, running or crashed, and its state; the logs stay."""
    state = read_state(run_dir)
    if state:
        state.init.kill()
        wait_gone(state.init)
        # What crashed long ago has been cleared away already by the next one in its slot.
        with slots.held(state.slot) as ours:
            if ours:
                network.remove_link(state.addresses.link)
                cgroups.remove(state.addresses.cgroup)
    for entry in run_dir.iterdir() if run_dir.exists() else ():
        if entry.is_dir() and entry.name != "log":
            shutil.rmtree(entry)
        elif entry.is_file():
            entry.unlink()
