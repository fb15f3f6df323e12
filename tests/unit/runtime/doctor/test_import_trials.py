"""The doctor's import trials with small programs that end in various ways."""

import sys

from gaudi_runtime.doctor.import_trials import run_trial


def trial(program: str, seconds: float = 60) -> tuple[str, dict[str, object]]:
    return run_trial([sys.executable, "-c", program], seconds)


def test_successful_trial_returns_its_last_line() -> None:
    assert trial("print('noise'); print('{\"cards\": []}')") == ("", {"cards": []})


def test_failed_trial_is_reported_by_its_last_line() -> None:
    assert trial("import no_such_module") == ("ModuleNotFoundError: No module named 'no_such_module'", {})


def test_library_that_fails_to_load_has_precedence_over_the_exception() -> None:
    program = "print('WARNING Failed to import from vllm._C: libnuma.so.1'); raise AttributeError('no op')"
    assert trial(program) == ("Failed to import from vllm._C: libnuma.so.1", {})


def test_killed_trial_is_reported_by_its_exit_status() -> None:
    assert trial("import os, signal; os.kill(os.getpid(), signal.SIGILL)") == ("exit status -4", {})


def test_hanging_trial_is_killed_and_reported() -> None:
    assert trial("import threading; threading.Event().wait()", seconds=0.2) == (
        "it did not end within 0.2 s",
        {},
    )
