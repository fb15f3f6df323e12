"""The page of the status port in a real headless browser: warm-up, traffic and a failed start."""

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import httpx

from gaudi_runtime.contract.report import Phase
from localcluster.programs.debian import require
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process

CHROMIUM = {"chromium": "/usr/bin/chromium"}


def seen(runtime: RuntimeProcess, folder: Path) -> str:
    """Return the HTML of the page after its script has run."""
    require(CHROMIUM)
    command = [CHROMIUM["chromium"], "--headless", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom"]
    # Chromium refuses to run as root with its sandbox. Running without the sandbox is safe here, because Chromium opens
    # only this page.
    command += ["--no-sandbox"] if os.geteuid() == 0 else []
    command += [f"--user-data-dir={folder / 'profile'}", f"http://127.0.0.1:{runtime.status_port}/"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def cells(page: str) -> Counter[str]:
    """Return the number of drawn buckets by state."""
    return Counter(re.findall(r'<span class="(\w+)" title=', page))


def test_page_of_a_warm_pod_shows_every_bucket_captured(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config()) as runtime:
        runtime.follow(Phase.SERVING)
        report, page = runtime.report(), seen(runtime, tmp_path)
        assert cells(page) == {"Captured": report.prompt.planned + report.decode.planned}
        assert '<span id="phase" role="status">Serving</span>' in page
        assert "This is a simulation" in page


def test_page_shows_traffic_and_skipped_buckets(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config({"oomAtCompile": "prompt:1"})) as runtime:
        runtime.follow(Phase.SERVING)
        request = {"model": "echo", "prompt": "hello", "max_tokens": 4}
        httpx.post(f"{runtime.model_url}/v1/completions", json=request, timeout=60).raise_for_status()
        page = seen(runtime, tmp_path)
        assert cells(page)["Cold"] == 1
        assert "data-met=" in page
        assert "ran out of memory" in page


def test_page_of_a_failed_start_shows_the_reason(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config({"failLoad": "ModelNotFound"})) as runtime:
        while runtime.report(wait=5).phase is not Phase.FAILED:
            pass
        assert '<h2 id="reason">ModelNotFound</h2>' in seen(runtime, tmp_path)
