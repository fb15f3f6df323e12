"""The bucket plan of the demo's resource, as `gaudi-plan` shows it before a pod exists and before a change."""

from pathlib import Path
from typing import Any

from rich.console import Console

from gaudi_operator.cli.plan.buckets import print_plan_buckets
from gaudi_operator.cli.plan.document import parse_document, read_plan_document, read_text
from gaudi_runtime.units import plural


def show_plan(manifest: Path, console: Console) -> None:
    """Print a table per phase with the prepared buckets. Raises ConfigError."""
    print_plan_buckets(read_plan_document(parse_document(read_text(manifest))).plan(), console)


def show_prompt_change(manifest: Path, spec: dict[str, Any], console: Console) -> None:
    """Print how a merge of `spec` into the manifest changes the prompt buckets. Raises ConfigError."""
    document = parse_document(read_text(manifest))
    old, new = (set(read_plan_document(each).plan().prompt) for each in (document, merge(document, {"spec": spec})))
    console.print(
        f"{len(old)} -> {plural(len(new), 'prompt bucket')}: {len(new - old)} added, {len(old - new)} dropped"
    )


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
