"""`kubectl gaudi plan learn`: choose buckets for the traffic that the pods of a resource served."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

import typer

from gaudi_operator.cli.kubectl.options import Refused, SelectedResource, with_resource
from gaudi_operator.cli.plan.options import Form, FormOption
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.resource import read_inference, read_status
from gaudi_runtime.contract.ports import TRAFFIC_PATH
from gaudi_runtime.contract.text import on_one_line
from gaudi_runtime.errors import ConfigError

UNOBSERVED = (
    "spec.rollout.canary.observeSeconds is 0, so this plan stays even if it pads live traffic more than forecast. "
    "Without the field, the first pod is observed for 600 s before further pods are replaced."
)
Apply = Annotated[
    bool, typer.Option("--apply", help="Apply the change to the resource. The change creates a revision.")
]


@with_resource
def learn(asked: SelectedResource, form: FormOption = Form.OPTIMAL, apply: Apply = False) -> None:
    """Choose buckets for the traffic that ready pods served, and print the change as a merge patch.

    On standard error, the command also compares the current plan with the learned plan for this traffic.
    """
    import yaml
    from rich.console import Console

    from gaudi_operator.cli.plan.learn import learn, print_learned, read_texts
    from gaudi_operator.cli.plan.output import warn
    from gaudi_operator.cli.plan.question import read_question

    # This import loads the optimizer, which other commands do not need.
    from gaudi_operator.cli.plan.strategy_scores import Budget

    resource = asked.cluster.inference_with_texts(asked.name)
    question, memory = read_question(resource, stored=True), read_status(resource).memory
    # If the status has a measured number of KV cache blocks, use this number, because the decode buckets depend on it.
    question = replace(question, kv_blocks=memory.kv_blocks) if memory else question
    found = learn(question, read_texts(_traffic(asked)), Budget(), form)
    print_learned(found, Console(stderr=True))
    warn(found.warnings)
    # Convert the patch to JSON and back, because safe_dump() accepts only plain strings and rejects enumeration
    # members.
    patch = json.loads(json.dumps(found.patch))
    typer.echo(yaml.safe_dump(patch, sort_keys=False, width=120), nl=False)
    if apply:
        warn(why_unobserved(resource, form))
        asked.cluster.patch(asked.name, patch)
        typer.echo(f"{asked.full_name} patched", err=True)


def why_unobserved(resource: Manifest, form: Form) -> list[str]:
    """Return a warning if the rollout has no observation time in which a canary would test the plan on traffic."""
    seconds = read_inference(resource).spec.rollout.canary.observe_seconds
    return [UNOBSERVED] if form is Form.OPTIMAL and seconds == 0 else []


def ready_pods(pods: Iterable[Manifest]) -> list[str]:
    """Return the names of the pods whose traffic `plan learn` reads. These pods are ready and not terminating."""
    return [
        pod["metadata"]["name"]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in (pod.get("status") or {}).get("conditions") or ()
        )
    ]


def _traffic(asked: SelectedResource) -> list[tuple[str, str]]:
    """Return the traffic of ready pods as (pod, text), and warn about pods that do not answer.

    Raises Refused if no pod answers.
    """
    texts = []
    for pod in ready_pods(asked.cluster.pods(asked.name)):
        try:
            texts.append((pod, asked.cluster.ask_pod(asked.name, pod, TRAFFIC_PATH)))
        except ConfigError as error:
            typer.echo(on_one_line(f"warning: pod {pod} is left out: {error}"), err=True)
    if not texts:
        raise Refused(f"no ready pod of {asked.name} reports its traffic")
    return texts
