"""No request fails when one pod replaces another under load, including streams and kept-alive connections."""

import asyncio
import signal
import sys
from pathlib import Path

import httpx

from gaudi_runtime.contract.report import Phase
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process, wait_until
from tests.unit.runtime.serve.proxy import Proxy, proxy

CLIENTS = 6
PROMPT = "a text that takes a second to be echoed"


class Load:
    """Clients that send requests continuously and record all failures. Half of the clients request streams."""

    def __init__(self, port: int) -> None:
        self.answered = 0
        self.failures: list[str] = []
        self._stop = False
        self._port = port

    async def run(self, clients: int) -> None:
        """Send requests until `end`."""
        url = f"http://127.0.0.1:{self._port}/v1/completions"
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            await asyncio.gather(*(self._ask(http, url, stream=bool(number % 2)) for number in range(clients)))

    def end(self) -> None:
        """Stop all clients after their current requests."""
        self._stop = True

    async def _ask(self, http: httpx.AsyncClient, url: str, stream: bool) -> None:
        body = {"model": "echo", "prompt": PROMPT, "max_tokens": 100, "stream": stream}
        while not self._stop:
            try:
                answer = await http.post(url, json=body)
            except httpx.TransportError as error:
                self.failures.append(repr(error))
                continue
            complete = answer.text.endswith("[DONE]\n\n") if stream else answer.json()["usage"]["total_tokens"] > 0
            self.answered += 1
            if answer.status_code != 200 or not complete:
                self.failures.append(answer.text)


async def replace(old: RuntimeProcess, new: RuntimeProcess, service: Proxy, load: Load) -> int:
    """End `old` like the kubelet (preStop hook, SIGTERM) while requests still arrive. Return the exit code."""
    hook = (sys.executable, "-m", "gaudi_runtime", "prestop", "--pid", str(old.process.pid), "--seconds", "0")
    assert await (await asyncio.create_subprocess_exec(*hook)).wait() == 0
    await asyncio.to_thread(wait_until, lambda: old.get("/readyz").status_code == 503)
    closing = load.answered
    await asyncio.to_thread(wait_until, lambda: load.answered >= closing + 2 * CLIENTS)
    service.backend = new.model_port
    old.signal(signal.SIGTERM)
    return await asyncio.to_thread(old.exit_code)


async def test_replacing_a_pod_under_load_fails_no_request(tmp_path: Path) -> None:
    script = {"tokensPerSecond": 50}
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    with (
        runtime_process(tmp_path / "old", sim_config(script)) as old,
        runtime_process(tmp_path / "new", sim_config(script)) as new,
    ):
        old.follow(Phase.SERVING)
        new.follow(Phase.SERVING)
        async with proxy(old.model_port) as service:
            load = Load(service.port)
            running = asyncio.create_task(load.run(CLIENTS))
            exit_code = await replace(old, new, service, load)
            load.end()
            await running
    assert exit_code == 0
    assert load.failures == []
    assert load.answered > 3 * CLIENTS
