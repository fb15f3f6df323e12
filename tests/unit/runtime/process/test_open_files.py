"""The limit of open files."""

import resource

import pytest

from gaudi_runtime.process.open_files import raise_open_file_limit

NO_LIMIT = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "limit"),
    [
        (1024, 4096, 4096),
        (1024, 1_048_576, 65_536),
        (1024, NO_LIMIT, 65_536),
        (100_000, 1_048_576, None),
        (65_536, 65_536, None),
        (NO_LIMIT, NO_LIMIT, None),
    ],
)
def test_limit_is_raised_to_the_hard_limit_and_never_lowered(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, limit: int | None
) -> None:
    limits = {resource.RLIMIT_NOFILE: (soft, hard)}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)
    raise_open_file_limit()
    assert limits == {resource.RLIMIT_NOFILE: (soft if limit is None else limit, hard)}
