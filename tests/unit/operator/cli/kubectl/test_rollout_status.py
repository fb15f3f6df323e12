"""The output of `kubectl gaudi rollout status`, and durations in the format of kubectl."""

from io import StringIO

import pytest
from rich.console import Console

from gaudi_operator.cli.kubectl.rollout_status import (
    RolloutStatusBar,
    RolloutStatusOutcome,
    RolloutStatusSummary,
    evaluate_rollout_status,
    parse_status_timeout,
)
from gaudi_operator.cli.kubectl.selected_resource import ResourceCommandError
from tests.unit.operator.cli.kubectl.kept import FAILURE, revision, shown

READY = ("Ready", True, "Serving", "All 2 replicas serve revision a.")
ON_ITS_WAY = ("Ready", False, "RollingOut", "1 of 2 replicas serve revision a; 1 left.")
STALLED = ("Stalled", True, "RolledBack", "Revision b failed (WarmupStalled): Nothing has moved.")
KEPT = (revision("a", 1),)


def test_ready_resource_is_reported_as_successfully_rolled_out() -> None:
    verdict = evaluate_rollout_status(shown(READY), KEPT)
    assert (verdict.outcome, verdict.sentence) == (
        RolloutStatusOutcome.DONE,
        'gaudiinference "tiny" successfully rolled out',
    )


def test_unfinished_rollout_reports_the_ready_condition_message() -> None:
    verdict = evaluate_rollout_status(shown(ON_ITS_WAY), KEPT)
    assert verdict.outcome is RolloutStatusOutcome.WAITING
    assert (
        verdict.sentence
        == 'Waiting for gaudiinference "tiny" rollout to finish: 1 of 2 replicas serve revision a; 1 left.'
    )


def test_stalled_rollout_fails_with_the_conditions_reason_and_message() -> None:
    verdict = evaluate_rollout_status(shown(ON_ITS_WAY, STALLED), KEPT)
    assert verdict.outcome is RolloutStatusOutcome.FAILED
    assert verdict.sentence == f'gaudiinference "tiny" stopped (RolledBack): {STALLED[3]}'


def test_rollback_message_omits_the_failure() -> None:
    back = ("Ready", False, "RollingBack", f"1 of 2 replicas serve revision a. {STALLED[3]} Revision a runs instead.")
    verdict = evaluate_rollout_status(shown(back), KEPT)
    assert verdict.outcome is RolloutStatusOutcome.WAITING
    assert verdict.sentence == 'gaudiinference "tiny" is rolled back: 1 of 2 replicas serve revision a'


def test_outdated_observed_generation_means_waiting() -> None:
    verdict = evaluate_rollout_status(shown(READY, observedGeneration=1), KEPT)
    assert verdict.outcome is RolloutStatusOutcome.WAITING
    assert "to be observed" in verdict.sentence


def test_resource_without_a_status_means_waiting() -> None:
    resource = shown()
    del resource["status"]
    assert evaluate_rollout_status(resource, ()).outcome is RolloutStatusOutcome.WAITING


def test_restart_without_a_revision_means_waiting() -> None:
    assert evaluate_rollout_status(shown(READY, restarted="now"), KEPT).outcome is RolloutStatusOutcome.WAITING


def test_restart_with_a_revision_missing_from_the_status_means_waiting() -> None:
    kept = (revision("c", 2, restarted="now"), *KEPT)
    assert evaluate_rollout_status(shown(READY, restarted="now"), kept).outcome is RolloutStatusOutcome.WAITING


def test_restart_is_rolled_out_once_its_revision_is_current() -> None:
    resource = shown(READY, restarted="now", revision={"current": "c"})
    assert (
        evaluate_rollout_status(resource, (revision("c", 2, restarted="now"), *KEPT)).outcome
        is RolloutStatusOutcome.DONE
    )


def test_restart_that_was_rolled_back_has_failed() -> None:
    rows = [{"name": "c", "number": 2, "phase": "RolledBack"}, {"name": "a", "number": 3, "phase": "Serving"}]
    kept = (revision("a", 3), revision("c", 2, FAILURE, restarted="now"))
    assert (
        evaluate_rollout_status(shown(ON_ITS_WAY, STALLED, restarted="now", revisions=rows), kept).outcome
        is RolloutStatusOutcome.FAILED
    )


def test_rolled_back_revision_without_a_recorded_failure_means_waiting() -> None:
    rows = [{"name": "c", "number": 2, "phase": "RolledBack"}, {"name": "a", "number": 3, "phase": "Serving"}]
    kept = (revision("a", 3), revision("c", 2, restarted="now"))
    assert (
        evaluate_rollout_status(shown(ON_ITS_WAY, STALLED, restarted="now", revisions=rows), kept).outcome
        is RolloutStatusOutcome.WAITING
    )


def test_refused_spec_has_failed_without_a_revision() -> None:
    refused = ("PlanAccepted", False, "PlanImpossible", "no KV block fits")
    stalled = ("Stalled", True, "PlanImpossible", "no KV block fits")
    assert (
        evaluate_rollout_status(shown(refused, stalled, restarted="now"), KEPT).outcome is RolloutStatusOutcome.FAILED
    )


def test_bar_shows_the_warm_up_of_the_least_advanced_pod() -> None:
    verdict = evaluate_rollout_status(shown(ON_ITS_WAY, warmup={"percent": 45}), KEPT)
    assert (verdict.warmup_percent, verdict.ready_replicas) == (45, "1/2")


@pytest.mark.parametrize(
    ("text", "found"), [("0", 0), ("0s", 0), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5s", 1.5), ("200ms", 0.2)]
)
def test_duration_is_parsed(text: str, found: float) -> None:
    assert parse_status_timeout(text) == pytest.approx(found)


@pytest.mark.parametrize("text", ["", "5", "-5s", "5 m", "5m!", "soon"])
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ResourceCommandError, match="is not a duration"):
        parse_status_timeout(text)


def test_control_characters_in_messages_are_escaped() -> None:
    verdict = evaluate_rollout_status(shown(ON_ITS_WAY, ("Stalled", True, "Failed", "\x1b]52;c;aGk=\x07")), KEPT)
    assert verdict.sentence == 'gaudiinference "tiny" stopped (Failed): \\x1b]52;c;aGk=\\x07'


def test_piped_output_has_complete_lines_without_repetition() -> None:
    out, sentence = StringIO(), "Waiting for " + 40 * "long [words] "
    with RolloutStatusBar(Console(file=out, width=80)) as progress:
        for percent in (1, 2):
            progress.show(RolloutStatusSummary(RolloutStatusOutcome.WAITING, sentence, percent, "0/1"))
    assert out.getvalue() == sentence + "\n"


def test_terminal_shows_a_progress_bar_of_the_warm_up() -> None:
    out = StringIO()
    with RolloutStatusBar(Console(file=out, width=160, force_terminal=True)) as progress:
        progress.show(RolloutStatusSummary(RolloutStatusOutcome.WAITING, "Waiting.", 45, "1/2"))
    assert "ready 1/2" in out.getvalue()
    assert "45%" in out.getvalue()
