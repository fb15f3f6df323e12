"""A client of a hub: lists the files of a repository, and reads one file from an offset.

Error messages contain no addresses of files, because addresses of a content delivery network contain signatures.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from importlib import import_module
from typing import Any, NoReturn

from huggingface_hub import HfApi, ModelInfo, __version__, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

from gaudi_runtime.artifacts.sources.listing import ListedFile, Listing, is_pinned_listing
from gaudi_runtime.errors import ConfigError, HubUnreachable, ModelAccessDenied, ModelNotFound

# huggingface_hub 1, which release 0.26 of the Gaudi plugin requires, uses httpx. Later versions use httpx2.
_HTTP: Any = import_module("httpx" if __version__.startswith("1.") else "httpx2")

ANSWER_SECONDS = 30.0
"""The time that the hub may be silent, before an answer or within one."""
DENIED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@dataclass(frozen=True)
class Hub:
    """One repository at one revision. `endpoint` is the address of the hub, or None for the public hub."""

    repo: str
    revision: str
    token: str | None = None
    endpoint: str | None = None

    def list_files(self) -> Listing:
        """List the files of the revision. Raises ModelNotFound, ModelAccessDenied or HubUnreachable."""
        with self._translate_errors():
            info = self._request_info()
        files = tuple(
            ListedFile(file.rfilename, file.size or 0, file.blob_id or "", file.lfs.sha256 if file.lfs else None)
            for file in info.siblings or ()
        )
        return Listing(self._verify_commit(info), files)

    def _verify_commit(self, info: ModelInfo) -> str:
        # The commit becomes the name of a folder, so any other text could lead to a wrong path.
        commit = info.sha or ""
        if not is_pinned_listing(commit) or (is_pinned_listing(self.revision) and commit != self.revision):
            raise HubUnreachable(f"{self._name} returned the wrong commit {commit!r} for revision {self.revision}.")
        return commit

    def _request_info(self) -> ModelInfo:
        api = HfApi(endpoint=self.endpoint, token=self.token or False)
        try:
            return api.model_info(self.repo, revision=self.revision, files_metadata=True, timeout=ANSWER_SECONDS)
        except (KeyError, TypeError, ValueError) as error:  # for example if a proxy answers with a page
            if isinstance(error, HfHubHTTPError):
                raise
            raise HubUnreachable(f"{self._name} sent an answer in an unknown format. Check HF_ENDPOINT.") from error

    @contextmanager
    def open_file(self, commit: str, path: str, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Yield the offset at which the answer begins (0 if the server does not support ranges), and the bytes.

        Raises the errors of `listing`, also while the bytes are read.
        """
        url = hf_hub_url(self.repo, path, revision=commit, endpoint=self.endpoint)
        headers = {**build_hf_headers(token=self.token or False), "Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        with (
            self._translate_errors(),
            get_session().stream("GET", url, headers=headers, timeout=ANSWER_SECONDS) as answer,
        ):
            hf_raise_for_status(answer)
            yield offset if answer.status_code == HTTPStatus.PARTIAL_CONTENT else 0, answer.iter_bytes()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except GatedRepoError as error:
            raise ModelAccessDenied(self._gated_message()) from error
        except RevisionNotFoundError as error:
            raise ModelNotFound(f"Repository {self.repo} has no revision {self.revision}.") from error
        except RepositoryNotFoundError as error:
            raise ModelNotFound(self._not_found_message()) from error
        except HfHubHTTPError as error:
            self._raise_http_error(error)
        except OfflineModeIsEnabled as error:
            raise ConfigError(
                f"HF_HUB_OFFLINE is set, so repository {self.repo} cannot be fetched. Unset HF_HUB_OFFLINE."
            ) from error
        except _HTTP.HTTPError as error:
            # Only the text of a connection error is reported. The texts of other errors may contain addresses or
            # headers.
            detail = str(error) if isinstance(error, _HTTP.ConnectError) else type(error).__name__
            raise HubUnreachable(f"{self._name} is not reachable ({detail}).") from error

    def _raise_http_error(self, error: HfHubHTTPError) -> NoReturn:
        status = error.response.status_code
        if status in DENIED:
            raise ModelAccessDenied(
                f"{self._name} refuses the access token for repository {self.repo} (HTTP {status}). Renew the token."
                if self.token
                else f"{self._name} needs an access token for repository {self.repo} (HTTP {status}). "
                "Set tokenSecretRef."
            ) from error
        raise HubUnreachable(f"{self._name} answers with HTTP {status}.") from error

    @property
    def _name(self) -> str:
        return f"The hub {self.endpoint}" if self.endpoint else "The hub"

    def _gated_message(self) -> str:
        if self.token:
            return (
                f"Repository {self.repo} is gated, and the account of the token has no access. Accept the repository's "
                "terms with this account."
            )
        return f"Repository {self.repo} is gated. Accept its terms on the hub, and set tokenSecretRef."

    def _not_found_message(self) -> str:
        if self.token:
            return f"{self._name} has no repository {self.repo} that the token may read. Check the name and the token."
        return f"{self._name} has no public repository {self.repo}. Check the name, or set tokenSecretRef."
