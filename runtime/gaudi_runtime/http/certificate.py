"""TLS of the model port: the certificate and key of a Secret, reloaded when they change.

The kubelet replaces the files of a mounted Secret while a pod runs, so the folder is checked repeatedly. New
connections use the last valid pair, and open connections keep their pair. If a new pair is unusable, the error is
logged, the last valid pair stays in use, and the files are read again later.
"""

import logging
import ssl
from pathlib import Path

from gaudi_runtime.errors import CertificateUnusable

CERTIFICATE, KEY = "tls.crt", "tls.key"

log = logging.getLogger(__name__)


class Certificate:
    """The certificate and key in `folder`. Raises CertificateUnusable if the files are not usable."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._contents = self._read_files()
        self._current_context = self._load_context()
        self._last_error = ""
        self.context = self._load_context()
        """The context of all connections. Each connection gets the current pair."""
        self.context.sni_callback = self._use_current_pair

    def reload_if_changed(self) -> None:
        """Load the files if they have changed.

        No error is raised: the last valid pair stays in use.
        """
        try:
            contents = self._read_files()
            if contents == self._contents:
                return
            self._current_context = self._load_context()
        except CertificateUnusable as error:
            if str(error) != self._last_error:  # checked every second, logged once
                log.error("The certificate was not replaced: %s", error)
            self._last_error = str(error)
            return
        # The contents are stored only after they are loaded. If the files are of two different pairs, the server reads
        # the files at the next check.
        self._contents, self._last_error = contents, ""
        log.info("New connections use the new certificate in %s.", self._folder)

    def _use_current_pair(self, connection: ssl.SSLObject | ssl.SSLSocket, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = self._current_context

    def _read_files(self) -> tuple[bytes, bytes]:
        try:
            return (self._folder / CERTIFICATE).read_bytes(), (self._folder / KEY).read_bytes()
        except OSError as error:
            raise _unusable_error(f"{Path(error.filename).name} cannot be read ({error.strerror})") from error

    def _load_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # The empty password makes an encrypted key fail. Without a password, OpenSSL would ask for one on a
            # terminal.
            context.load_cert_chain(self._folder / CERTIFICATE, self._folder / KEY, password="")
        except ssl.SSLError as error:
            reason = error.reason or "no PEM"
            raise _unusable_error(f"{CERTIFICATE} and {KEY} are not a usable pair ({reason})") from error
        except OSError as error:
            raise _unusable_error(f"{CERTIFICATE} or {KEY} cannot be read ({error.strerror})") from error
        return context


def _unusable_error(reason: str) -> CertificateUnusable:
    return CertificateUnusable(
        f"The Secret of spec.server.tlsSecretName cannot be used: {reason}. The Secret must have a certificate "
        f"chain in {CERTIFICATE} and its private key, without a password, in {KEY}, like a Secret of type "
        "kubernetes.io/tls."
    )
