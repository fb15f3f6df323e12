"""The cost of the most expensive bodies within the limits of the model port, on vLLM's own request models."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.http.openai_api.body import TOKEN_FIELDS
from gaudi_runtime.http.openai_api.paths import GENERATING
from tests.vllm.bodies import SEQUENCES

SECONDS, MIB = 5.0, 512
"""Limits of one body. 16 MiB of token ids are parsed twice, in 1.5 s. Without bounds, 16 KB took 8 s and 2.4 GiB."""
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def measured() -> list[dict[str, Any]]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.vllm.worst_bodies"],
        cwd=REPOSITORY,
        env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, f"a body took more than all of them may: {run.stdout[-400:]} {run.stderr[-2000:]}"
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_every_generating_path_is_measured(measured: list[dict[str, Any]]) -> None:
    assert {each["path"] for each in measured} == GENERATING
    assert [each["path"] for each in measured if "missing" in each] == []


def test_every_body_is_checked_within_time_and_memory_limits(measured: list[dict[str, Any]]) -> None:
    assert [each for each in measured if each["seconds"] > SECONDS or each["mib"] > MIB] == []


def test_every_body_is_answered_with_200_or_a_client_error(measured: list[dict[str, Any]]) -> None:
    assert [each for each in measured if each["status"] not in (200, 400, 413, 415, 422)] == []


def test_request_with_too_many_sequences_is_refused(measured: list[dict[str, Any]]) -> None:
    found = {each["path"]: each["status"] for each in measured if each.get("body") == SEQUENCES}
    assert found == {"/v1/completions": 400}


def test_bodies_at_the_limits_are_accepted(measured: list[dict[str, Any]]) -> None:
    assert {each["path"] for each in measured if each["status"] == 200} >= {"/v1/chat/completions", *TOKEN_FIELDS}
