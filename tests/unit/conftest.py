"""Settings for all unit tests."""

from hypothesis import settings

# Disable hypothesis' deadline, so that a busy machine fails no test. Benchmarks detect slow code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
