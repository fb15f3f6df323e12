"""Settings are read from the environment, invalid values have clear errors, and the page lists all settings."""

from pathlib import Path

import pytest

from gaudi_operator.core.installation import InstallationHostPath
from gaudi_operator.settings import parse_arguments, read_settings, settings_page

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"


@pytest.fixture(autouse=True)
def _runtime_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAUDI_OPERATOR_RUNTIME_IMAGE", "runtime:1")


def test_settings_page_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == settings_page()


def test_namespaces_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAUDI_OPERATOR_WATCH_NAMESPACES", "blue, green,")
    assert read_settings().watch_namespaces == ("blue", "green")


def test_pattern_of_namespaces_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAUDI_OPERATOR_WATCH_NAMESPACES", "blue,green-*")
    with pytest.raises(SystemExit, match=r"WATCH_NAMESPACES: .*green-\* is not a namespace\. Patterns"):
        read_settings()


def test_all_namespaces_are_watched_by_default() -> None:
    assert read_settings().watch_namespaces == ()


def test_kubeconfig_is_read_without_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/some/where")
    assert read_settings().kubeconfig == "/some/where"


def test_two_processes_have_different_identities() -> None:
    assert read_settings().identity != read_settings().identity


def test_missing_image_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAUDI_OPERATOR_RUNTIME_IMAGE")
    with pytest.raises(
        SystemExit, match=r"GAUDI_OPERATOR_RUNTIME_IMAGE is missing: set it, or write --runtime-image=VALUE\."
    ):
        read_settings()


def test_renew_deadline_above_the_lease_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAUDI_OPERATOR_RENEW_DEADLINE_SECONDS", "20")
    with pytest.raises(
        SystemExit, match="RENEW_DEADLINE_SECONDS, which must be below GAUDI_OPERATOR_LEASE_DURATION_SECONDS"
    ):
        read_settings()


def test_host_path_folders_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[{"prefix": "/models", "namespaces": ["chat"], "groups": [3000]}]'
    monkeypatch.setenv("GAUDI_OPERATOR_ALLOW_HOST_PATH", text)
    assert read_settings().installation_defaults().allow_host_path == (
        InstallationHostPath("/models", ("chat",), (3000,)),
    )


@pytest.mark.parametrize("text", ["", "[]"])
def test_no_host_path_folders_are_allowed_by_default(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GAUDI_OPERATOR_ALLOW_HOST_PATH", text)
    assert read_settings().installation_defaults().allow_host_path == ()


@pytest.mark.parametrize(
    "text", ["yes", "true", '[{"prefix": "models"}]', '[{"prefix": "/a/../b"}]', '[{"path": "/models"}]']
)
def test_wrong_host_path_folders_name_their_variable(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GAUDI_OPERATOR_ALLOW_HOST_PATH", text)
    with pytest.raises(SystemExit, match="GAUDI_OPERATOR_ALLOW_HOST_PATH"):
        read_settings()


@pytest.mark.parametrize("text", ["collector:4317", '{"endpoint": "collector:4317"}', '{"protocol": "grpc"}'])
def test_wrong_collector_names_its_variable(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GAUDI_OPERATOR_TRACING", text)
    with pytest.raises(SystemExit, match="GAUDI_OPERATOR_TRACING"):
        read_settings()


def test_arguments_set_settings() -> None:
    assert parse_arguments(["--log-level=DEBUG", "--watch-namespaces=a,b", "--kubeconfig=/x"]) == {
        "KUBECONFIG": "/x",
        "GAUDI_OPERATOR_LOG_LEVEL": "DEBUG",
        "GAUDI_OPERATOR_WATCH_NAMESPACES": "a,b",
    }


@pytest.mark.parametrize("argument", ["--verbose=1", "--log-level", "log-level=DEBUG"])
def test_unknown_argument_is_refused(argument: str) -> None:
    with pytest.raises(SystemExit, match=f"run: {argument} is not a setting. Write settings"):
        parse_arguments([argument])
