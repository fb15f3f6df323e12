"""The output of `kubectl gaudi rollout status`, and durations in the format of kubectl."""

from io import StringIO

import pytest
from rich.console import Console

from gaudi_operator.cli.kubectl.options import Refused
from gaudi_operator.cli.kubectl.rollout_status import Outcome, RolloutProgressBar, Verdict, judge_rollout, seconds
from tests.unit.operator.cli.kubectl.kept import FAILURE, revision, shown

READY = ("Ready", True, "Serving", "All 2 replicas serve revision a.")
ON_ITS_WAY = ("Ready", False, "RollingOut", "1 of 2 replicas serve revision a; 1 left.")
STALLED = ("Stalled", True, "RolledBack", "Revision b failed (WarmupStalled): Nothing has moved.")
KEPT = (revision("a", 1),)


def test_ready_resource_is_rolled_out_in_the_words_of_kubectl() -> None:
    verdict = judge_rollout(shown(READY), KEPT)
    assert (verdict.outcome, verdict.sentence) == (Outcome.DONE, 'gaudiinference "tiny" successfully rolled out')


def test_rollout_on_its_way_says_what_it_waits_for() -> None:
    verdict = judge_rollout(shown(ON_ITS_WAY), KEPT)
    assert verdict.outcome is Outcome.WAITING
    assert (
        verdict.sentence
        == 'Waiting for gaudiinference "tiny" rollout to finish: 1 of 2 replicas serve revision a; 1 left.'
    )


def test_stalled_rollout_has_failed_with_the_conditions_reason_and_sentence() -> None:
    verdict = judge_rollout(shown(ON_ITS_WAY, STALLED), KEPT)
    assert verdict.outcome is Outcome.FAILED
    assert verdict.sentence == f'gaudiinference "tiny" stopped (RolledBack): {STALLED[3]}'


def test_failure_is_told_once_when_it_is_rolled_back() -> None:
    back = ("Ready", False, "RollingBack", f"1 of 2 replicas serve revision a. {STALLED[3]} Revision a runs instead.")
    verdict = judge_rollout(shown(back), KEPT)
    assert verdict.outcome is Outcome.WAITING
    assert verdict.sentence == 'gaudiinference "tiny" is rolled back: 1 of 2 replicas serve revision a'


def test_status_of_an_older_generation_is_waited_for() -> None:
    verdict = judge_rollout(shown(READY, observedGeneration=1), KEPT)
    assert verdict.outcome is Outcome.WAITING
    assert "to be observed" in verdict.sentence


def test_resource_without_any_status_is_waited_for() -> None:
    resource = shown()
    del resource["status"]
    assert judge_rollout(resource, ()).outcome is Outcome.WAITING


def test_restart_that_no_revision_runs_yet_is_waited_for() -> None:
    assert judge_rollout(shown(READY, restarted="now"), KEPT).outcome is Outcome.WAITING


def test_restart_whose_revision_is_not_in_status_is_waited_for() -> None:
    kept = (revision("c", 2, restarted="now"), *KEPT)
    assert judge_rollout(shown(READY, restarted="now"), kept).outcome is Outcome.WAITING


def test_restart_is_rolled_out_once_its_revision_is_current() -> None:
    resource = shown(READY, restarted="now", revision={"current": "c"})
    assert judge_rollout(resource, (revision("c", 2, restarted="now"), *KEPT)).outcome is Outcome.DONE


def test_restart_that_was_rolled_back_has_failed() -> None:
    rows = [{"name": "c", "number": 2, "phase": "RolledBack"}, {"name": "a", "number": 3, "phase": "Serving"}]
    kept = (revision("a", 3), revision("c", 2, FAILURE, restarted="now"))
    assert judge_rollout(shown(ON_ITS_WAY, STALLED, restarted="now", revisions=rows), kept).outcome is Outcome.FAILED


def test_failed_revision_that_may_be_tried_again_is_waited_for() -> None:
    rows = [{"name": "c", "number": 2, "phase": "RolledBack"}, {"name": "a", "number": 3, "phase": "Serving"}]
    kept = (revision("a", 3), revision("c", 2, restarted="now"))
    assert judge_rollout(shown(ON_ITS_WAY, STALLED, restarted="now", revisions=rows), kept).outcome is Outcome.WAITING


def test_refused_spec_has_failed_although_it_made_no_revision() -> None:
    refused = ("PlanAccepted", False, "PlanImpossible", "no KV block fits")
    stalled = ("Stalled", True, "PlanImpossible", "no KV block fits")
    assert judge_rollout(shown(refused, stalled, restarted="now"), KEPT).outcome is Outcome.FAILED


def test_bar_shows_the_warm_up_of_the_least_advanced_pod() -> None:
    verdict = judge_rollout(shown(ON_ITS_WAY, warmup={"percent": 45, "phase": "Compiling"}, phase="RollingOut"), KEPT)
    assert (verdict.percent, verdict.phase, verdict.ready) == (45, "RollingOut", "1/2")


@pytest.mark.parametrize(
    ("text", "found"), [("0", 0), ("0s", 0), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5s", 1.5), ("200ms", 0.2)]
)
def test_duration_is_read(text: str, found: float) -> None:
    assert seconds(text) == pytest.approx(found)


@pytest.mark.parametrize("text", ["", "5", "-5s", "5 m", "5m!", "soon"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="is not a duration"):
        seconds(text)


def test_words_of_a_pod_steer_no_terminal() -> None:
    verdict = judge_rollout(shown(ON_ITS_WAY, ("Stalled", True, "Failed", "\x1b]52;c;aGk=\x07")), KEPT)
    assert verdict.sentence == 'gaudiinference "tiny" stopped (Failed): \\x1b]52;c;aGk=\\x07'


def test_lines_of_a_pipe_are_whole_and_said_once() -> None:
    out, sentence = StringIO(), "Waiting for " + 40 * "long [words] "
    with RolloutProgressBar(Console(file=out, width=80)) as progress:
        for percent in (1, 2):
            progress.show(Verdict(Outcome.WAITING, sentence, "WarmingUp", percent, "0/1"))
    assert out.getvalue() == sentence + "\n"


def test_terminal_has_a_bar_of_the_warm_up() -> None:
    out = StringIO()
    with RolloutProgressBar(Console(file=out, width=160, force_terminal=True)) as progress:
        progress.show(Verdict(Outcome.WAITING, "Waiting.", "WarmingUp", 45, "1/2"))
    assert "WarmingUp  ready 1/2" in out.getvalue()
    assert "45%" in out.getvalue()
