"""What status says of a pod that fetches its model."""

import pytest

from gaudi_operator.core.fetching import fetching
from gaudi_runtime.contract.report import FetchProgress

GIB = 1024**3


@pytest.mark.parametrize(
    ("progress", "sentence"),
    [
        (FetchProgress(done_bytes=0), "Fetches the model."),
        (FetchProgress(done_bytes=3 * GIB, total_bytes=16 * GIB), "Fetches the model: 3 GiB of 16 GiB (18 %)."),
        (
            FetchProgress(done_bytes=5 * GIB, waiting=True),
            "Waits for another process that fetches the model: 5 GiB are here.",
        ),
    ],
    ids=["beginning", "under_way", "waiting"],
)
def test_fetch_is_a_sentence(progress: FetchProgress, sentence: str) -> None:
    assert fetching(progress) == sentence
