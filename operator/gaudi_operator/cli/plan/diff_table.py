"""The difference of two plans for people."""

from rich.console import Console
from rich.table import Table

from gaudi_operator.cli.heat.maps import change_map
from gaudi_operator.cli.heat.terminal import heat_table
from gaudi_operator.cli.plan.diff_forecast import Costs
from gaudi_operator.cli.plan.forecast_table import amount
from gaudi_operator.cli.plan.plan_diff import Change, PhaseDiff, PlanDiff
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.figure import weakest

MOST_CHANGES = 30
LONGEST_VALUE = 40


def print_diff(found: PlanDiff, costs: Costs) -> None:
    """What was changed, what that does to the buckets, and what it costs."""
    console = Console()
    if found.changes:
        console.print(_changes(found.changes))
    for phase, each in found.phases.items():
        console.print(_summary(phase, each))
        if each.added or each.dropped:
            console.print(heat_table(change_map(phase, each.kept, each.added, each.dropped), console))
    if costs:
        console.print(_costs(costs))
    for line in _consequences(found):
        console.print(line)


def _changes(changes: tuple[Change, ...]) -> Table:
    more = len(changes) - MOST_CHANGES
    table = Table("field", "old", "new", title="What is different", caption=f"and {more} more" if more > 0 else None)
    for change in changes[:MOST_CHANGES]:
        table.add_row(change.path, _short(change.old), _short(change.new))
    return table


def _short(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _costs(costs: Costs) -> Table:
    table = Table(
        "figure",
        "old",
        "new",
        "sure",
        title="An estimate",
        caption="`gaudi-plan forecast` says where figures come from",
    )
    for cost in costs:
        old, new = (amount(figure.value, cost.unit) if figure else "unknown" for figure in (cost.old, cost.new))
        if old != new or cost is costs[-1]:
            table.add_row(cost.name, old, new, weakest(*(figure for figure in (cost.old, cost.new) if figure)))
    return table


def _summary(phase: BucketPhase, each: PhaseDiff) -> str:
    before, after = len(each.kept) + len(each.dropped), len(each.kept) + len(each.added)
    if not (each.added or each.dropped):
        return f"{phase}: the same {after} buckets"
    return f"{phase}: {before} -> {after} buckets, {len(each.added)} added, {len(each.dropped)} dropped"


def _consequences(found: PlanDiff) -> list[str]:
    return [line for line in (_restart_line(found), _compile_line(found)) if line]


def _restart_line(found: PlanDiff) -> str | None:
    if found.restarts is None:
        return None
    if found.restarts:
        return "A new revision: every pod is replaced, one after the other, as spec.rollout says."
    return "No new revision: no pod restarts."


def _compile_line(found: PlanDiff) -> str | None:
    if found.restarts is False:
        return None
    discarded = f", because recipes depend on {', '.join(found.discarding)}" if found.discarding else ""
    return (
        f"A new pod compiles {found.planned} buckets; with a recipe cache of the old plan "
        f"{found.compiled_anew}{discarded}."
    )
