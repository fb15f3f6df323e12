from gaudi_runtime.warmup.time_budget import TimeBudget


def test_no_budget_is_never_spent() -> None:
    assert not TimeBudget(None, iter([0.0, 1e9]).__next__).spent()


def test_a_budget_is_spent_once_its_seconds_have_passed() -> None:
    budget = TimeBudget(60, iter([100.0, 159.0, 160.0]).__next__)
    assert [budget.spent(), budget.spent()] == [False, True]


def test_the_reason_names_the_seconds() -> None:
    assert TimeBudget(60, lambda: 0.0).reason == "the time budget of 60 s was spent before its turn"
