"""Operators and runtime images of different releases. Each row of docs/reference/api-policy.md is tested here."""

import json
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate import judgement
from gaudi_operator.core.names import PLAN_HASH_ANNOTATION
from gaudi_operator.core.observed import ObservedReport
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_operator.shell.polling.status_port import (
    StatusPort,
    StatusPortClient,
    StatusPortReportUnusable,
    StatusPortUnreachable,
)
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.ports import WARMUP_PATH
from gaudi_runtime.contract.report import NO_PLAN, Phase, RuntimeFailureReport
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.serve import read_config
from tests.support.builders import Object, merged
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.pod_objects import gate_condition, pod, view
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.resources import NOW, inference, resource
from tests.unit.operator.core.stories import condition, pod_names, status

SERVING: Object = report().model_dump(mode="json", by_alias=True)
REQUIRED = {"version", "instance", "sequence", "planHash", "phase", "prompt", "decode"}
NEW = {"fromTheFuture": {"depth": 3}}


async def report_from(answer: Object | None) -> ObservedReport:
    """Return the report of container `c1` that is read from this response. None stands for a port without a report."""

    async def handler(_: web.Request) -> web.Response:
        return web.json_response(answer)

    app = web.Application()
    if answer is not None:
        app.router.add_get(WARMUP_PATH, handler)
    async with TestServer(app) as server, StatusPortClient() as ports:
        assert server.port
        try:
            found = await ports.fetch(StatusPort("uid-of-a", "c1", "127.0.0.1", server.port), after=0, wait=0.0)
        except (StatusPortUnreachable, StatusPortReportUnusable) as error:
            return ObservedReport("c1", NOW, ignored_reason=str(error))
        return ObservedReport("c1", NOW, report=found)


async def gate_after(answer: Object | None, *conditions: Object) -> tuple[bool | None, str | None]:
    """Return the gate that is set for a pod with this response, and the reason why its report is ignored."""
    found = await report_from(answer)
    seen = view(pod(conditions=conditions), found.report, ignored_reason=found.ignored_reason)
    action = judgement.judge_gate(seen, Readiness(), Deadlines(NOW))
    return action.open if action else None, seen.ignored_reason


@pytest.mark.parametrize(
    "newer",
    [NEW, {"served": NEW}, {"prompt": {**SERVING["prompt"], **NEW}}, {"requests": {**SERVING["requests"], **NEW}}],
    ids=str,
)
async def test_field_of_a_newer_runtime_is_ignored(newer: Object) -> None:
    assert await gate_after(merged(SERVING, newer)) == (True, None)


async def test_report_without_optional_fields_opens_the_gate() -> None:
    older = {name: value for name, value in SERVING.items() if name in REQUIRED}
    assert await gate_after(older) == (True, None)
    found = (await report_from(older)).report
    assert found
    assert (found.served, found.requests) == (report().served, report().requests)


async def test_report_of_another_plan_keeps_the_gate_closed() -> None:
    wrote, ignored = await gate_after({**SERVING, "planHash": "q" * 64})
    assert wrote is None
    assert ignored == (
        "Its report is for plan qqqqqqqqqq, but the pod was created for plan pppppppppp: its image may have another "
        "release of the runtime."
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({**SERVING, "version": "v2"}, "the report cannot be read: version: Input should be 'v1'"),
        ({**SERVING, "phase": "Pondering"}, "the report cannot be read: phase: Input should be 'Starting'"),
        ({**SERVING, "prompt": "all"}, "the report cannot be read: prompt: Input should be"),
        (None, "the status port answered with HTTP 404"),
    ],
    ids=["version", "phase", "form", "none"],
)
async def test_unreadable_answer_keeps_the_gate_closed(answer: Object | None, reason: str) -> None:
    wrote, ignored = await gate_after(answer)
    assert wrote is None
    assert ignored is not None
    assert ignored.startswith(reason)


@pytest.mark.parametrize("answer", [{**SERVING, "version": "v2"}, {**SERVING, "planHash": "q" * 64}, None])
async def test_open_gate_stays_open_without_a_readable_report(answer: Object | None) -> None:
    assert (await gate_after(answer, gate_condition(True)))[0] is None


def configuration() -> Object:
    """Return the RuntimeConfig of a resource as it is in the ConfigMap."""
    return runtime_config(inference()).model_dump(mode="json", by_alias=True, exclude_none=True)


def read(folder: Path, document: Object) -> RuntimeConfig:
    path = folder / "config.json"
    path.write_text(json.dumps(document))
    return read_config(path)


def test_runtime_of_the_same_release_reads_the_configuration(tmp_path: Path) -> None:
    assert read(tmp_path, configuration()) == runtime_config(inference())


def test_newer_runtime_uses_defaults_for_missing_fields(tmp_path: Path) -> None:
    older = configuration()
    del older["warmup"]["promptOrder"], older["serving"]["drainSeconds"]
    assert read(tmp_path, older).warmup == runtime_config(inference()).warmup


@pytest.mark.parametrize(
    ("newer", "named"),
    [
        ({"warmup": NEW}, "warmup.fromTheFuture: Extra inputs are not permitted"),
        ({"bucketing": {"strategy": "clairvoyant"}}, "bucketing.strategy: Input should be 'exponential'"),
    ],
    ids=["field", "value"],
)
def test_older_runtime_names_unknown_fields(tmp_path: Path, newer: Object, named: str) -> None:
    with pytest.raises(ConfigError, match="is not a RuntimeConfig") as refused:
        read(tmp_path, merged(configuration(), newer))
    assert named in str(refused.value)


def test_refused_configuration_stalls_the_resource_with_its_reason() -> None:
    cluster = Cluster(resource())
    for _ in range(3):
        cluster.operate()
        cluster.controllers()
    (name,) = pod_names(cluster)
    made_for = cluster.objects["Pod", name]["metadata"]["annotations"][PLAN_HASH_ANNOTATION]
    failure = RuntimeFailureReport(
        reason="ConfigInvalid", message="warmup.fromTheFuture: Extra inputs are not permitted."
    )
    cluster.report(name, Phase.FAILED, plan_hash=NO_PLAN, failure=failure)
    cluster.operate()
    assert made_for != NO_PLAN
    assert condition(cluster, "Stalled") == ("True", "ConfigInvalid")
    assert status(cluster)["pods"][0]["message"] == failure.message


def test_only_a_failed_report_is_accepted_without_a_plan() -> None:
    assert view(report=report(Phase.FAILED, plan_hash=NO_PLAN)).report is not None
    assert view(report=report(Phase.SERVING, plan_hash=NO_PLAN)).report is None
