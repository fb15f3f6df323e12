"""Faults and refusals of a hub: which faults are retried, and the error messages of all others."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from gaudi_runtime.errors import (
    HubUnreachable,
    ModelAccessDenied,
    ModelNotFound,
    ModelUnreadable,
    RuntimeStartError,
    UnsupportedModel,
)
from tests.unit.runtime.artifacts.sources.conftest import HALF, WEIGHTS, Site


def test_oversized_file_is_fetched_again(site: Site) -> None:
    site.hub.excess = 1
    assert (site.fetch() / "model.safetensors").read_bytes() == WEIGHTS
    assert site.hub.downloads() == [("model.safetensors", None)] * 2
    size = len(WEIGHTS)
    came = f"The download of model.safetensors from tiny/model ended after {size + 4} of {size} bytes."
    assert site.warnings == [f"{came} The next attempt is in 0 s."]


def test_unavailable_hub_is_retried_and_reported(site: Site) -> None:
    site.hub.statuses = [503, 429]
    site.fetch()
    assert site.warnings == [
        f"The hub {site.endpoint} answers with HTTP {status}. The next attempt is in 0 s." for status in (503, 429)
    ]


def test_hub_that_stays_unavailable_is_reported(site: Site) -> None:
    site.hub.statuses = [503] * 4
    with pytest.raises(HubUnreachable, match=r"^The hub http://127\.0\.0\.1:\d+ answers with HTTP 503\.$"):
        site.fetch(tries=3)


def test_received_bytes_reset_the_retry_budget(site: Site) -> None:
    site.hub.break_after = [HALF // 4, HALF // 2, HALF]
    assert (site.fetch(tries=1) / "model.safetensors").read_bytes() == WEIGHTS


def test_refused_connection_raises_hub_unreachable(site: Site) -> None:
    site.endpoint = "http://127.0.0.1:9"
    with pytest.raises(HubUnreachable, match=r"is not reachable \(.*Connection refused\)"):
        site.fetch(tries=0)


def test_network_error_is_reported_by_its_type_only(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: listener.accept()[0].close())
        site.endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(HubUnreachable, match=r"is not reachable \([A-Za-z]+Error\)\.$"):
            site.fetch(tries=0)


def test_response_of_a_proxy_names_the_endpoint_variable(site: Site) -> None:
    site.hub.statuses = [200]
    with pytest.raises(HubUnreachable, match="Check HF_ENDPOINT"):
        site.fetch(tries=0)


@pytest.mark.parametrize("commit", ["../../elsewhere", "", "d" * 40], ids=["path", "nothing", "other"])
def test_response_with_another_commit_is_refused(commit: str, site: Site) -> None:
    site.hub.commit = commit
    with pytest.raises(HubUnreachable, match="returned the wrong commit"):
        site.fetch(tries=0)


def without_token(site: Site) -> None:
    site.hub.token, site.hub.gated = "right", True
    site.fetch()


def without_rights(site: Site) -> None:
    site.hub.token, site.hub.gated = "right", True
    site.fetch(token="other")


def with_a_wrong_token(site: Site) -> None:
    site.hub.token = "right"
    site.fetch(token="wrong")


def refused_without_a_token(site: Site) -> None:
    site.hub.statuses = [403]
    site.fetch()


def private(site: Site) -> None:
    site.hub.token = "right"
    site.fetch()


def unknown_repository(site: Site) -> None:
    site.fetch(repo="tiny/other", token="any")


def unknown_revision(site: Site) -> None:
    site.fetch("v9")


def no_safetensors(site: Site) -> None:
    del site.hub.files["model.safetensors"]
    site.fetch()


def path_that_leads_out(site: Site) -> None:
    site.hub.files["../evil.safetensors"] = b""
    site.fetch()


REFUSED: list[tuple[Callable[[Site], None], type[RuntimeStartError], str]] = [
    (
        without_token,
        ModelAccessDenied,
        "Repository tiny/model is gated. Accept its terms on the hub, and set tokenSecretRef.",
    ),
    (
        without_rights,
        ModelAccessDenied,
        "Repository tiny/model is gated, and the account of the token has no access. Accept the repository's "
        "terms with this account.",
    ),
    (
        with_a_wrong_token,
        ModelAccessDenied,
        "The hub HUB refuses the access token for repository tiny/model (HTTP 401). Renew the token.",
    ),
    (
        refused_without_a_token,
        ModelAccessDenied,
        "The hub HUB needs an access token for repository tiny/model (HTTP 403). Set tokenSecretRef.",
    ),
    (
        private,
        ModelNotFound,
        "The hub HUB has no public repository tiny/model. Check the name, or set tokenSecretRef.",
    ),
    (
        unknown_repository,
        ModelNotFound,
        "The hub HUB has no repository tiny/other that the token may read. Check the name and the token.",
    ),
    (unknown_revision, ModelNotFound, "Repository tiny/model has no revision v9."),
    (
        no_safetensors,
        UnsupportedModel,
        "Repository tiny/model has no safetensors files. Choose a repository with such files.",
    ),
    (
        path_that_leads_out,
        ModelUnreadable,
        "Repository tiny/model lists the file '../evil.safetensors', which is outside the repository's folder.",
    ),
]


@pytest.mark.parametrize(("case", "kind", "sentence"), REFUSED, ids=[case.__name__ for case, _, _ in REFUSED])
def test_each_refusal_raises_its_error_with_a_message(
    case: Callable[[Site], None], kind: type[RuntimeStartError], sentence: str, site: Site
) -> None:
    with pytest.raises(kind) as raised:
        case(site)
    assert str(raised.value) == sentence.replace("HUB", site.endpoint)
    assert site.hub.downloads() == []


def test_error_messages_contain_neither_token_nor_signed_url(site: Site) -> None:
    site.hub.token, site.hub.break_after = "hf_secret", [HALF] * 9
    with pytest.raises(HubUnreachable) as raised:
        site.fetch(token="hf_secret", tries=0)
    assert "hf_secret" not in str(raised.value)
    assert "signature" not in str(raised.value)
