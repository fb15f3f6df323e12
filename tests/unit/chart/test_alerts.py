"""Scenarios for each alert: series of one model and of the operator, one value per minute, evaluated by promtool.

A scenario lists the series that differ from a model that serves well. At the end of a scenario, exactly the alerts that
it names fire.
"""

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.chart_docs import CHART
from tests.unit.chart.promtool import promtool

RULES = CHART / "files" / "alerts.yaml"
ALERTS = [each["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for each in group["rules"]]
MINUTES = 45
MODEL = 'namespace="shop", name="chat"'


def of_model(metric: str, labels: str = "") -> str:
    """Return the name and labels of an operator metric for the model."""
    return f"gaudi_inference_{metric}{{{MODEL}{', ' if labels else ''}{labels}}}"


def has(condition: str, status: str, reason: str = "AsUsual") -> str:
    return of_model("condition", f'type="{condition}", status="{status}", reason="{reason}"')


def has_pods(state: str) -> str:
    return of_model("replicas", f'state="{state}"')


def reconciles(outcome: str) -> str:
    return f'gaudi_operator_reconciles_total{{outcome="{outcome}"}}'


def gates_within(seconds: str) -> str:
    return f'gaudi_operator_gate_seconds_bucket{{le="{seconds}"}}'


def leads(pod: str, namespace: str = "gaudi-system") -> str:
    return f'gaudi_operator_leader{{namespace="{namespace}", job="gaudi-operator-metrics", pod="{pod}"}}'


def of_pods(metric: str, labels: str = "") -> str:
    """Return the name and labels of a metric of the model's pod."""
    mine = 'namespace="shop", inference_gaudi_dev_name="chat", pod="chat-0"'
    return f"{metric}{{{mine}{', ' if labels else ''}{labels}}}"


def recompiles(phase: str) -> str:
    return of_pods("gaudi_recompiles_since_ready_total", f'phase="{phase}"')


def first_tokens(seconds: str) -> str:
    return of_pods("vllm:time_to_first_token_seconds_bucket", f'le="{seconds}"')


CAPTURED = of_model("captured_percent", 'phase="decode"')
WARMUP = of_model("warmup_percent")
QUEUE = 'gaudi_operator_queue_depth{pod="a"}'
GONE = "_"
"""No value: the series does not exist."""

WELL = {
    has("Ready", "True"): "1",
    has("Reconciling", "False"): "1",
    has("Available", "True"): "1",
    has("Degraded", "False"): "1",
    has("Stalled", "False"): "1",
    has_pods("desired"): "2",
    has_pods("ready"): "2",
    has_pods("lost"): "0",
    has("AutoscalerActive", "True"): "1",
    of_pods("gaudi_sequences_waiting"): "0",
    of_pods("gaudi_requests_total", 'code="200"'): "0+60x{minutes}",
    first_tokens("2.5"): "0+60x{minutes}",
    first_tokens("10"): "0+60x{minutes}",
    first_tokens("30"): "0+60x{minutes}",
    first_tokens("+Inf"): "0+60x{minutes}",
    WARMUP: "100",
    CAPTURED: "100",
    recompiles("prompt"): "7",
    recompiles("decode"): "0",
    leads("a"): "1",
    leads("b"): "0",
    reconciles("done"): "0+30x{minutes}",
    gates_within("2"): "0+6x{minutes}",
    gates_within("5"): "0+6x{minutes}",
    gates_within("+Inf"): "0+6x{minutes}",
    QUEUE: "0",
}


def turns(condition: str, since: int, until: int = MINUTES, reason: str = "Unusual") -> dict[str, str]:
    """Return the series of a condition that does not have its usual status between two minutes."""
    usual = "True" if has(condition, "True") in WELL else "False"
    other = "False" if usual == "True" else "True"
    return {has(condition, other, reason): during(since, until), has(condition, usual): outside(since, until)}


def moves(since: int, until: int = MINUTES) -> dict[str, str]:
    """Return the series of a model that the operator changes between two minutes."""
    return {**turns("Reconciling", since, until), **turns("Ready", since, until)}


def during(since: int, until: int = MINUTES, value: str = "1", otherwise: str = GONE) -> str:
    """Return the samples of a series: `value` between two minutes, else `otherwise`. An ended series becomes stale."""
    after = "stale" if otherwise == GONE else otherwise
    parts = ((otherwise, since), (value, until - since), (after, MINUTES - until + 1))
    return " ".join(word for word, minutes in parts for _ in range(minutes))


def outside(since: int, until: int = MINUTES) -> str:
    """Return the samples of a series that is stale between two minutes and 1 otherwise."""
    parts = (("1", since), ("stale", until - since), ("1", MINUTES - until + 1))
    return " ".join(word for word, minutes in parts for _ in range(minutes))


@dataclass(frozen=True)
class Story:
    """A story with the series that differ from WELL, and the alerts that fire at the end."""

    title: str
    series: dict[str, str] = field(default_factory=dict)
    fires: tuple[str, ...] = ()
    at: int = MINUTES - 1


GROWS = "0+5x20 " + "100+0x{minutes}"
"""The estimate for a warm-up of twenty minutes, after the first value."""

STORIES = (
    Story("all is well"),
    Story("a good upgrade of an hour", {**moves(5, 40), WARMUP: GROWS}, at=30),
    Story("a spec was refused", turns("Stalled", 30), ("GaudiModelStalled",)),
    Story(
        "the reason why it waits for a person changes",
        {
            **turns("Stalled", 20),
            has("Stalled", "True", "Unusual"): during(20, 24),
            has("Stalled", "True", "ImagePullBackOff"): during(24),
        },
        ("GaudiModelStalled",),
        at=27,
    ),
    Story("a person has acted", turns("Stalled", 10, 40)),
    Story("it waits for a person only just now", turns("Stalled", 41)),
    Story(
        "replicas are lost, and too few are left",
        {**turns("Available", 30), has_pods("lost"): during(30, MINUTES, "1", "0")},
        ("GaudiModelUnavailable",),
    ),
    Story("a pod is away for a moment", {**turns("Available", 30, 33), has_pods("lost"): during(30, 33, "1", "0")}),
    Story(
        "a first start takes long",
        {**turns("Available", 0), **moves(0), WARMUP: "0 " * 30 + GROWS},
        at=40,
    ),
    Story(
        "one more replica warms up",
        {**turns("Available", 5), **moves(5), has_pods("desired"): "3", WARMUP: "0+2x{minutes}"},
    ),
    Story("no pods are asked for", {**turns("Available", 0), has_pods("desired"): "0", has_pods("ready"): "0"}),
    Story("the autoscaler has no metric", turns("AutoscalerActive", 20), ("GaudiModelAutoscalerInactive",)),
    Story("the autoscaler had none for a moment", turns("AutoscalerActive", 20, 30)),
    Story(
        "one answer in ten is a 503",
        {of_pods("gaudi_requests_total", 'code="503"'): "0+7x{minutes}"},
        ("GaudiModelRequestsFail",),
    ),
    Story("one answer in a hundred is a 500", {of_pods("gaudi_requests_total", 'code="500"'): "0+0.6x{minutes}"}),
    Story("clients send wrong requests", {of_pods("gaudi_requests_total", 'code="400"'): "0+60x{minutes}"}),
    Story(
        "first tokens come late",
        {first_tokens("2.5"): "0+6x{minutes}", first_tokens("10"): "0+30x{minutes}"},
        ("GaudiModelFirstTokenLate",),
    ),
    Story("sequences queue", {of_pods("gaudi_sequences_waiting"): "40"}, ("GaudiModelQueueIsLong",)),
    Story("sequences queue for a moment", {of_pods("gaudi_sequences_waiting"): during(30, 36, "40", "0")}),
    Story("a replica is missing for long", {has_pods("lost"): during(20, MINUTES, "1", "0")}, ("GaudiModelDegraded",)),
    Story("a replica was missing for ten minutes", {has_pods("lost"): during(20, 30, "1", "0")}),
    Story("the spec allows fewer graphs", {**turns("Degraded", 0), CAPTURED: "62.5"}),
    Story(
        "an upgrade was rolled back",
        turns("Stalled", 30, reason="RolledBack"),
        ("GaudiModelRolledBack",),
    ),
    Story("the upgrade was undone", turns("Stalled", 20, 40, "RolledBack")),
    Story(
        "a bucket does not end",
        {**moves(10), WARMUP: during(10, MINUTES, "42", "100")},
        ("GaudiModelWarmupStandsStill",),
        at=39,
    ),
    Story(
        "a bucket did not end before the stall timeout",
        {**moves(0, 31), **turns("Stalled", 31), WARMUP: "42"},
        ("GaudiModelStalled",),
    ),
    Story("a large model is fetched", {**moves(0), WARMUP: "0"}),
    Story("a bucket took twenty minutes", {**moves(0), WARMUP: "0 " * 15 + "42+0x{minutes}"}, at=36),
    Story("a rollout is paused while a pod warms up", {**turns("Ready", 0, reason="RolloutPaused"), WARMUP: "42"}),
    Story(
        "requests meet shapes without a graph",
        {recompiles("decode"): "0+5x{minutes}"},
        ("GaudiModelRequestsWaitForCompiles",),
    ),
    Story("a few requests have met one", {recompiles("decode"): "0+1.9x{minutes}"}),
    Story(
        "both phases met some",
        {recompiles(each): "0+1.5x{minutes}" for each in ("prompt", "decode")},
        ("GaudiModelRequestsWaitForCompiles",),
    ),
    Story("many have, for a moment", {recompiles("decode"): during(30, MINUTES, "25", "0")}),
    Story("graphs found no memory", {CAPTURED: "62.5"}),
    Story("graphs are still to be captured", {**moves(0), WARMUP: GROWS, CAPTURED: "0"}, at=20),
    Story("both operators wait for the Lease", {leads("a"): "0"}, ("GaudiOperatorHasNoLeader",)),
    Story("no operator is scraped", {leads("a"): GONE, leads("b"): GONE}, ("GaudiOperatorHasNoLeader",)),
    Story(
        "one of two installations is dead",
        {leads("a", "other"): during(0, 30), leads("b", "other"): "0"},
        ("GaudiOperatorHasNoLeader",),
    ),
    Story(
        "one of two installations is not scraped", {leads("a", "other"): during(0, 30)}, ("GaudiOperatorHasNoLeader",)
    ),
    Story("two installations work", {leads("a", "other"): "1"}),
    Story(
        "the Lease goes over", {leads("a"): during(30, MINUTES, "0", "1"), leads("b"): during(32, MINUTES, "1", "0")}
    ),
    Story("reconciles end with a defect", {reconciles("bug"): "0+1x{minutes}"}, ("GaudiOperatorFails",)),
    Story("the API server refuses a write", {reconciles("refused"): "0+1x{minutes}"}, ("GaudiOperatorFails",)),
    Story("writes meet others' and are done again", {reconciles("conflict"): "0+1x{minutes}"}),
    Story("gates open late", {gates_within("2"): "0+5x{minutes}"}, ("GaudiOperatorOpensGatesLate",)),
    Story("no gate is to be opened", {gates_within(each): "7" for each in ("2", "5", "+Inf")}),
    Story("more comes than the operator gets done", {QUEUE: "40"}, ("GaudiOperatorIsBehind",)),
    Story("all resources come at once", {QUEUE: during(30, 35, "400", "0")}),
)


def test_every_alert_has_a_scenario_in_which_it_fires() -> None:
    assert {alert for story in STORIES for alert in story.fires} == set(ALERTS)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.title.replace(" ", "-"))
def test_scenario_raises_its_alerts_and_no_others(story: Story, tmp_path: Path) -> None:
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    fired = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(story.fires)]
    assert not failures(
        story, {"promql_expr_test": [{"expr": query, "eval_time": f"{story.at}m", "exp_samples": fired}]}, tmp_path
    )


def failures(story: Story, wanted: dict[str, Any], folder: Path) -> str:
    """Return promtool's output if the story does not end as expected, else an empty string."""
    values = {**WELL, **story.series}
    series = [{"series": name, "values": promtool_values(value)} for name, value in values.items()]
    test = {"interval": "1m", "input_series": series, **wanted}
    file = folder / "story.yaml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run([promtool(), "test", "rules", file], capture_output=True, text=True, check=False)
    return f"{done.stdout}{done.stderr}" if done.returncode else ""


def promtool_values(value: str) -> str:
    """Return a value in promtool's notation. A constant value is repeated for the whole story."""
    still = re.fullmatch(r"[\d.]+|_", value)
    return f"{value}{'' if value == GONE else '+0'}x{MINUTES}" if still else value.replace("{minutes}", str(MINUTES))
