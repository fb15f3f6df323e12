from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.warmup.sampler import SAMPLER_RUNS, SamplerRun, sampler_batch_sizes


def test_seed_004_every_batch_size_is_run_twelve_times() -> None:
    assert len(SAMPLER_RUNS) == len(set(SAMPLER_RUNS)) == 12


def test_seed_004_first_run_is_greedy_with_a_changed_batch() -> None:
    assert SAMPLER_RUNS[0] == SamplerRun(temperature=0.0, top_p=1.0, top_k=0, batch_changed=True)


def test_seed_004_last_run_filters_by_top_p_with_an_unchanged_batch() -> None:
    assert SAMPLER_RUNS[-1] == SamplerRun(temperature=0.8, top_p=0.85, top_k=0, batch_changed=False)


def test_seed_004_batch_sizes_are_zero_one_and_those_of_decode() -> None:
    assert sampler_batch_sizes((Bucket(138, 1, 128), Bucket(138, 1, 256))) == (0, 1, 138)


def test_batch_size_one_is_not_repeated() -> None:
    assert sampler_batch_sizes((Bucket(1, 1, 128), Bucket(2, 1, 128))) == (0, 1, 2)
