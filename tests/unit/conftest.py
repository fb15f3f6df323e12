"""Settings of all unit tests."""

from hypothesis import settings

# A busy machine must not fail a property: what is slow is caught by the tests that measure.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
