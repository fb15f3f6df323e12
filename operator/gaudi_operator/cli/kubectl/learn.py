"""`kubectl gaudi plan learn`: choose buckets for the traffic that the pods of a resource served."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

import typer

from gaudi_operator.cli.kubectl.selected_resource import ResourceCommandError, SelectedResource, with_resource
from gaudi_operator.cli.plan.options import FormOption, PatchForm
from gaudi_operator.core.inference import read_inference, read_inference_status
from gaudi_operator.core.observed import Manifest
from gaudi_runtime.contract.bucketing import OptimalSettings
from gaudi_runtime.contract.ports import TRAFFIC_PATH
from gaudi_runtime.contract.text import make_one_line
from gaudi_runtime.errors import ConfigError

UNOBSERVED = (
    "spec.rollout.canary.observeSeconds is 0, so this plan stays even if it pads live traffic more than forecast. "
    "Without the field, the first pod is observed for 600 s before further pods are replaced."
)
Apply = Annotated[
    bool, typer.Option("--apply", help="Apply the change to the resource. The change creates a revision.")
]


@with_resource
def learn(selection: SelectedResource, form: FormOption = PatchForm.OPTIMAL, apply: Apply = False) -> None:
    """Choose buckets for the traffic that ready pods served, and print the change as a merge patch.

    On standard error, the command also compares the current plan with the learned plan for this traffic.
    """
    import yaml
    from rich.console import Console

    from gaudi_operator.cli.plan.document import read_plan_document

    # This import loads the optimizer, which other commands do not need.
    from gaudi_operator.cli.plan.learn import learn_plan, print_learned_plan, read_traffic_to_learn
    from gaudi_operator.cli.plan.output import print_output_warnings

    resource = selection.cluster.fetch_inference(selection.name)
    document, plan = read_plan_document(resource, stored=True), read_inference_status(resource).plan
    # If a pod has reported the number of its KV cache blocks, use this number, because the decode buckets depend on it.
    document = replace(document, kv_blocks=plan.kv_blocks) if plan else document
    learned_plan = learn_plan(document, read_traffic_to_learn(_read_traffic(selection)), OptimalSettings(), form)
    print_learned_plan(learned_plan, Console(stderr=True))
    print_output_warnings(learned_plan.warnings)
    # Convert the patch to JSON and back, because safe_dump() accepts only plain strings and rejects enumeration
    # members.
    patch = json.loads(json.dumps(learned_plan.patch))
    typer.echo(yaml.safe_dump(patch, sort_keys=False, width=120), nl=False)
    if apply:
        print_output_warnings(learn_observation_warnings(resource, form))
        selection.cluster.patch_inference(selection.name, patch)
        typer.echo(f"{selection.full_name} patched", err=True)


def learn_observation_warnings(resource: Manifest, form: PatchForm) -> list[str]:
    """Return a warning if the rollout has no observation time in which a canary would test the plan on traffic."""
    observe_seconds = read_inference(resource).spec.rollout.canary.observe_seconds
    return [UNOBSERVED] if form is PatchForm.OPTIMAL and observe_seconds == 0 else []


def pod_names_to_learn_from(pods: Iterable[Manifest]) -> list[str]:
    """Return the names of the pods whose traffic `plan learn` reads. These pods are ready and not terminating."""
    return [
        pod["metadata"]["name"]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in (pod.get("status") or {}).get("conditions") or ()
        )
    ]


def _read_traffic(selection: SelectedResource) -> list[tuple[str, str]]:
    """Return the traffic of ready pods as (pod, text), and warn about pods that do not answer.

    Raises ResourceCommandError if no pod answers.
    """
    traffic_texts = []
    for pod_name in pod_names_to_learn_from(selection.cluster.list_pods(selection.name)):
        try:
            traffic_texts.append((pod_name, selection.cluster.query_pod(selection.name, pod_name, TRAFFIC_PATH)))
        except ConfigError as error:
            typer.echo(make_one_line(f"warning: pod {pod_name} is left out: {error}"), err=True)
    if not traffic_texts:
        raise ResourceCommandError(f"no ready pod of {selection.name} reports its traffic")
    return traffic_texts
