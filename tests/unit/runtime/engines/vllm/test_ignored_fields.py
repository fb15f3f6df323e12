"""Fields of requests that the plugin does not apply."""

from types import SimpleNamespace

from gaudi_runtime.engines.vllm.ignored_fields import IGNORED, ignored_default_notes


def test_ignored_defaults_of_the_model_are_reported() -> None:
    model = SimpleNamespace(get_diff_sampling_param=lambda: {"min_p": 0.1, "top_p": 0.9})
    assert list(ignored_default_notes(model, IGNORED)) == [
        "generation_config.json of the model sets min_p to 0.1, but vllm-gaudi does not apply min_p, so tokens are "
        "sampled without it"
    ]
