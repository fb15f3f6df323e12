from gaudi_runtime.buckets.old_releases import exponential_fill, unified_alpha


def test_exponential_fill_puts_taken_points_on_the_nearest_free_multiple() -> None:
    expected = [128, 256, 384, 512, 640, 768, 896, 1024, 1408, 1792, 2304, 3072, 4096]
    assert exponential_fill(128, 128, 4096, 13, ends_exact=False) == expected


def test_exponential_fill_without_free_multiples_has_fewer_values() -> None:
    assert exponential_fill(1, 1, 4, 9, ends_exact=False) == [1, 2, 3, 4]


def test_unified_alpha_has_quarters_halves_and_wholes() -> None:
    assert unified_alpha(0, 32, 256) == [0, 8, 16, 32, 64, 128, 256]
