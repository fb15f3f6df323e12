"""All laws, in the order of reporting. Each law yields one sentence for each violation in a history."""

from collections.abc import Callable, Iterator

from tests.laws import endings, readiness, rollout, showing
from tests.laws.history import History

Law = Callable[[History], Iterator[str]]

ALWAYS: tuple[Law, ...] = (
    readiness.no_gate_opens_before_capture,
    readiness.no_gate_closes_without_evidence,
    readiness.never_ready_before_captured,
    readiness.no_gate_outlives_its_container,
    readiness.no_cold_pod_in_endpoints,
    rollout.never_fewer_available_than_promised,
    rollout.never_more_pods_than_allowed,
    rollout.canary_is_alone,
    rollout.no_failed_revision_is_tried_again,
    rollout.no_unapproved_revision_starts_while_paused,
    rollout.no_pod_keeps_a_deletion_cost_without_need,
    rollout.no_pods_are_created_in_a_hot_loop,
    showing.status_tells_the_truth_about_pods,
    showing.status_has_its_form,
    showing.stalled_for_room_only_after_the_deadline,
    showing.no_message_contradicts_the_status,
    showing.queued_pods_are_not_stalled,
    endings.every_child_is_owned,
    endings.only_the_holder_of_the_lease_writes,
)
"""Laws that hold at every moment."""

IN_THE_END: tuple[Law, ...] = (
    endings.every_rollout_ends,
    endings.working_revision_serves,
    endings.failed_revision_is_given_up,
    endings.upgrade_is_blocked_only_by_its_minimum,
    endings.operator_is_idle_at_the_end,
    endings.nothing_is_left_over,
)
"""Laws that hold if the history ends long after the last fault."""


def broken(history: History, laws: tuple[Law, ...] = ALWAYS + IN_THE_END) -> list[str]:
    """Return one sentence for each violation, with the name of the law."""
    return [f"{law.__name__}: {found}" for law in laws for found in law(history)]
