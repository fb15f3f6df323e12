"""Progress output of running steps, on a terminal and elsewhere."""

import io
from dataclasses import dataclass, field

import pytest
from rich.console import Console

from localcluster.progress import Board, format_time_left


@dataclass
class Screen:
    """A progress board with a fixed clock that writes to a string."""

    terminal: bool = False
    now: float = 0
    file: io.StringIO = field(default_factory=io.StringIO)

    def board(self) -> Board:
        console = Console(file=self.file, force_terminal=self.terminal, color_system=None, soft_wrap=True, width=100)
        return Board(console, clock=lambda: self.now)

    @property
    def lines(self) -> list[str]:
        return self.file.getvalue().splitlines()


def test_step_has_a_line_at_its_start_and_end() -> None:
    screen = Screen()
    with screen.board().step("Building Helm"):
        screen.now = 2
    assert screen.lines == ["… Building Helm", "✓ Building Helm (2.0 s)"]


def test_measured_step_shows_its_last_duration() -> None:
    screen = Screen()
    with screen.board().step("Building Helm", 50):
        assert screen.lines == ["… Building Helm (about 50 s on two cores)"]


def test_line_of_a_failed_step_has_its_duration() -> None:
    screen = Screen()

    def fail() -> None:
        with screen.board().step("Building Helm"):
            screen.now = 3
            raise RuntimeError("no mirror")

    with pytest.raises(RuntimeError, match="no mirror"):
        fail()
    assert screen.lines[-1] == "✗ Building Helm: stopped after 3.0 s"


def test_finished_step_shows_the_total_remaining_time() -> None:
    screen = Screen()
    board = screen.board()
    with board.total(lambda: 240), board.step("Building Helm"):
        pass
    assert screen.lines[-1] == "✓ Building Helm (0.0 s) in all about 4 min left (estimate)"


def test_terminal_shows_every_running_step_with_its_estimate() -> None:
    screen = Screen(terminal=True)
    board = screen.board()
    with board.total(lambda: 600), board.step("Building Helm", 50), board.step("Building the runtime image", 240):
        screen.now = 10
        board.refresh()
        shown = screen.file.getvalue()
    assert "Building Helm (10 s, about 40 s left (estimate))" in shown
    assert "Building the runtime image (10 s, about 4 min left (estimate))" in shown
    assert "in all about 10 min left (estimate)" in shown


def test_terminal_keeps_one_line_of_a_finished_step() -> None:
    screen = Screen(terminal=True)
    with screen.board().step("Building Helm"):
        pass
    assert screen.lines[-1].endswith("✓ Building Helm (0.0 s)")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (240, "about 4 min left (estimate)"),
        (44, "about 40 s left (estimate)"),
        (3, "about 10 s left (estimate)"),
        (-5, "longer than estimated"),
    ],
)
def test_estimate_is_rounded_and_marked(seconds: float, words: str) -> None:
    assert format_time_left(seconds) == words
