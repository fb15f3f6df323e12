from gaudi_runtime.warmup.defragmenter import SWAP_SIZES, warmup_swaps


def test_seed_004_swaps_run_at_every_size() -> None:
    assert set(warmup_swaps()) == set(SWAP_SIZES) == {8, 16, 32, 64, 128, 256, 512}


def test_seed_004_swaps_are_even_so_the_cache_ends_as_it_began() -> None:
    assert len(warmup_swaps()) == 8
    assert warmup_swaps()[-1] == 8
