"""`gaudi-runtime serve` as a container: a real process with the configuration that the operator wrote."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from posixpath import basename
from uuid import uuid4

import httpx

from gaudi_runtime.contract.ports import CONFIG_PATH, READYZ_PATH
from tests.support.fake_runtime import STATUS_PORT
from tests.support.kube_api import KubeApi, Object

_PROBE_SECONDS = 0.1


class RealRuntime:
    """One runtime process. It listens on all addresses of the network.

    Therefore, only one process can run at a time.
    """

    def __init__(self, address: str, config: str, folder: Path) -> None:
        """Create a process with `config`, a RuntimeConfig as JSON. `folder` contains the files and the cache volume."""
        self.address = address
        self.container_id = f"process://{uuid4().hex}"
        self.on_change: Callable[[], None] = lambda: None
        self.serving = False
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        (folder / "config.json").write_text(json.dumps(json.loads(config) | {"recipeCacheDir": str(folder / "cache")}))

    async def start(self) -> None:
        """Start the process and its readiness probe."""
        command = (sys.executable, "-m", "gaudi_runtime", "serve", "--config", str(self._folder / "config.json"))
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder)}
        with (self._folder / "runtime.log").open("a") as log:
            self._process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=log, stderr=log)
        self._probe = asyncio.create_task(self._probing())

    async def stop(self) -> None:
        """Send SIGKILL, as the kernel's OOM killer does. Do nothing if the process was never started."""
        if self._process is None:
            return
        self._probe.cancel()
        await asyncio.gather(self._probe, return_exceptions=True)
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def _probing(self) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            while True:
                await asyncio.sleep(_PROBE_SECONDS)
                self.serving = await self._is_ready(client)
                self.on_change()

    async def _is_ready(self, client: httpx.AsyncClient) -> bool:
        try:
            return (await client.get(f"http://{self.address}:{STATUS_PORT}{READYZ_PATH}")).is_success
        except httpx.TransportError:
            return False


async def real_runtime(api: KubeApi, folder: Path, address: str, pod: Object) -> RealRuntime:
    """Return the runtime of a pod, with the configuration from the pod's ConfigMap."""
    names = (volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume)
    config_map = await api.get("ConfigMap", next(names))
    assert config_map
    return RealRuntime(address, config_map["data"][basename(CONFIG_PATH)], folder)
