"""The command `gaudi-runtime doctor`: collect facts, judge them, and print the rows as a table or as JSON."""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict

import typer

from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.doctor.checks import DoctorCheckResult, engines_to_check, no_check_failed, run_doctor_checks
from gaudi_runtime.doctor.probes import probe_facts


def run_doctor(chosen: Collection[EngineName], *, as_json: bool, image_only: bool) -> int:
    """Print what this machine and this image support; return 1 if a check fails that a `chosen` engine needs.

    If `chosen` is empty, all installed engines are checked.
    """
    facts = probe_facts(chosen, image_only=image_only)
    engines = frozenset(chosen) or engines_to_check(facts.image)
    rows = run_doctor_checks(facts, engines)
    typer.echo(_render_json(rows, engines) if as_json else _render_table(rows, engines))
    return 0 if no_check_failed(rows) else 1


def _render_table(rows: Sequence[DoctorCheckResult], engines: frozenset[EngineName]) -> str:
    """Return the rows of the doctor as a table with advice, followed by the overall result."""
    lines = []
    for row in rows:
        lines.append(f"{row.state:8} {row.topic:20} {row.found}")
        lines += [f"{'':29} {row.advice}"] if row.advice else []
    verdict = "all requirements are met." if no_check_failed(rows) else "not all requirements are met."
    return "\n".join([*lines, f"Engine {', '.join(sorted(engines))}: {verdict}"])


def _render_json(rows: Sequence[DoctorCheckResult], engines: frozenset[EngineName]) -> str:
    """Return the doctor's result as JSON: `healthy`, `engines`, and `rows` with state, found, advice and neededBy."""
    json_rows = []
    for row in rows:
        fields = asdict(row)
        needed_by = sorted(fields.pop("needed_by"))
        json_rows.append({**fields, "neededBy": needed_by})
    return json.dumps({"healthy": no_check_failed(rows), "engines": sorted(engines), "rows": json_rows}, indent=2)
