"""The sandbox of a node, and its removal, which may happen in another process."""

import os
import shutil
import subprocess
from pathlib import Path

from localcluster.cache import cache_dir
from localcluster.errors import LocalClusterError
from localcluster.node.state import State, read_state
from localcluster.sandbox import cgroups, network, slots
from localcluster.sandbox.addresses import SLOTS
from localcluster.sandbox.processes import wait_for_end
from localcluster.sandbox.sandbox import Sandbox

# The kubelet, CNI and containerd also write to these folders, which cannot be configured. Each sandbox has private
# ones.
_PRIVATE = ("/run", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers")

# The folders of containerd contain the blobs of images, the unpacked layers, and the records of both.
_CONTENT = "io.containerd.content.v1.content"
_LAYERS = "io.containerd.snapshotter.v1.overlayfs"
_RECORDS = "io.containerd.metadata.v1.bolt"


def open_sandbox(run_dir: Path, name: str, profile: str) -> tuple[Sandbox, State]:
    """Start an isolated sandbox in a free slot, connect it to the machine, and return it with its stored state."""
    slot, lock = slots.take()
    try:
        sandbox = Sandbox.create(isolated=True, open_files=[lock])
    finally:
        os.close(lock)
    state = State(name, profile, slot, sandbox.init.pid, sandbox.init.start_ticks)
    run_dir.mkdir(parents=True, exist_ok=True)
    state.write(run_dir)
    sandbox.run("mount", "--make-rshared", "/")
    for folder in _PRIVATE:
        Path(folder).mkdir(parents=True, exist_ok=True)
        sandbox.run("mount", "-t", "tmpfs", "-o", "mode=755", "private", folder)
    network.connect(sandbox, state.addresses)
    return sandbox, state


def image_store(slot: int) -> Path:
    """Return the image folder of nodes in `slot`. The folder outlives nodes, so that images are imported only once."""
    return cache_dir() / "image-store" / str(slot)


def share_images(source_slot: int, node_count: int) -> None:
    """Copy the images of the node in slot `source_slot` to the image folders of up to `node_count` nodes.

    This node must have ended.

    Files that never change become hard links, which take neither time nor disk space.
    """
    with slots.try_hold(source_slot) as source_is_free:
        if not source_is_free:
            raise LocalClusterError(f"The node in slot {source_slot} is running: stop it before its images are shared.")
        for slot in [slot for slot in range(SLOTS) if slot != source_slot][: node_count - 1]:
            with slots.try_hold(slot) as slot_is_free:
                if slot_is_free and _blobs(image_store(slot)) != _blobs(image_store(source_slot)):
                    _link_store(image_store(source_slot), image_store(slot))


def _blobs(store: Path) -> set[str]:
    folder = store / _CONTENT / "blobs" / "sha256"
    return {blob.name for blob in folder.iterdir()} if folder.exists() else set()


def _link_store(source: Path, target: Path) -> None:
    draft = target.with_name(f".{target.name}.draft")
    for folder in (draft, target):
        shutil.rmtree(folder, ignore_errors=True)
    draft.mkdir()
    subprocess.run(["cp", "--archive", "--link", source / _CONTENT, source / _LAYERS, draft], check=True)
    # Copy the records for each node instead of linking them, because containerd changes records in place. Blobs and
    # layers never change.
    shutil.copytree(source / _RECORDS, draft / _RECORDS)
    (draft / _LAYERS / "metadata.db").unlink()
    shutil.copy2(source / _LAYERS / "metadata.db", draft / _LAYERS)
    draft.rename(target)


def remove_image_stores() -> None:
    """Remove the images of all stopped nodes."""
    for store in (cache_dir() / "image-store").glob("*"):
        with slots.try_hold(int(store.name)) as slot_is_free:
            if slot_is_free:
                shutil.rmtree(store)


def clean_up(run_dir: Path) -> None:
    """Remove the processes and the state of the node in `run_dir`, whether the node runs or has crashed.

    Keep the logs.
    """
    state = read_state(run_dir)
    if state:
        state.init.kill()
        wait_for_end(state.init)
        # Remove the network link and the cgroup only if no other node uses the slot. If this node crashed long ago, the
        # next node in its slot has already removed them.
        with slots.try_hold(state.slot) as slot_is_free:
            if slot_is_free:
                network.remove_link(state.addresses.link)
                cgroups.remove(state.addresses.cgroup)
    for entry in run_dir.iterdir() if run_dir.exists() else ():
        if entry.is_dir() and entry.name != "log":
            shutil.rmtree(entry)
        elif entry.is_file():
            entry.unlink()
