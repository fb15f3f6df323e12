"""One replica of two pods, with one pipeline stage per pod.

The test has a separate file, so that it runs concurrently with test_two_pods.py.
"""

import signal
from pathlib import Path

from gaudi_runtime.contract.config import ExecutionMode, ParallelismConfig
from gaudi_runtime.contract.report import Phase
from tests.vllm.greedy_tokens import transformers_tokens
from tests.vllm.two_pods import PROMPTS, config_of, greedy, group_of


def test_pipeline_stages_answer_like_transformers_and_end_together(checkpoint: Path, tmp_path: Path) -> None:
    both = ParallelismConfig(pipeline=2, nodes=2)
    with group_of(tmp_path, config_of(checkpoint, tmp_path, both, ExecutionMode.EAGER)) as (leader, worker):
        leader.follow(Phase.SERVING)
        assert greedy(leader) == transformers_tokens(checkpoint, PROMPTS, 24)
        worker.signal(signal.SIGTERM)
        assert (leader.exit_code(), worker.exit_code()) == (0, 0)
