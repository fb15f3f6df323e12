"""Settings for all unit tests."""

from hypothesis import settings

# A busy machine must not make a property fail. Benchmarks find slow code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
