"""The bucket plan of the demo's resource, as `gaudi-plan` shows it before a pod exists and before a change."""

from pathlib import Path
from typing import Any

from rich.console import Console

from gaudi_operator.cli.plan.diff import compare_plans
from gaudi_operator.cli.plan.document import PlanDocument, parse_document, read_plan_document, read_text
from gaudi_operator.cli.plan.drawing import heat_table
from gaudi_operator.cli.plan.heat import change_map, heat_maps
from gaudi_operator.cli.plan.options import HeatMetric
from gaudi_runtime.contract.report import BucketPhase


def show_plan(manifest: Path, console: Console) -> None:
    """Print a heat map per phase with the prepared shapes and the padding of their requests. Raises ConfigError."""
    document = read_plan_document(parse_document(read_text(manifest)))
    for heat_map in heat_maps(document, document.plan(), HeatMetric.PADDING):
        console.print(heat_table(heat_map, console))


def show_prompt_change(manifest: Path, spec: dict[str, Any], console: Console) -> None:
    """Print the prompt buckets that a merge of `spec` into the manifest adds and removes. Raises ConfigError."""
    document = parse_document(read_text(manifest))
    old, new = read_plan_document(document), _read_patched(document, spec)
    prompt_changes = compare_plans(old, new, old.plan(), new.plan()).phases[BucketPhase.PROMPT]
    heat_map = change_map(BucketPhase.PROMPT, prompt_changes.kept, prompt_changes.added, prompt_changes.dropped)
    console.print(heat_table(heat_map, console))


def _read_patched(document: dict[str, Any], spec: dict[str, Any]) -> PlanDocument:
    return read_plan_document(merge(document, {"spec": spec}))


def merge(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a merge patch (RFC 7386), as the API server applies it."""
    merged = {key: value for key, value in document.items() if key not in patch or patch[key] is not None}
    for key, value in patch.items():
        if isinstance(value, dict):
            old_value = document.get(key)
            merged[key] = merge(old_value if isinstance(old_value, dict) else {}, value)
        elif value is not None:
            merged[key] = value
    return merged
