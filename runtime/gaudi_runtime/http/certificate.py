"""TLS of the model port: the pair of a Secret in cert-manager's form, as it is now.

The kubelet exchanges the files of a mounted Secret while a pod runs. What the folder holds is looked at again and
again, and connections that begin later get the pair that was found last; those that are open keep theirs. A pair that
cannot be used changes nothing: the log says so, and it is tried again.
"""

import logging
import ssl
from pathlib import Path

from gaudi_runtime.errors import CertificateUnusable

CERTIFICATE, KEY = "tls.crt", "tls.key"

log = logging.getLogger(__name__)


class Certificate:
    """The pair in `folder`. Raises CertificateUnusable where it is none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._contents()
        self._now = self._loaded()
        self._complaint = ""
        self.context = self._loaded()
        """For every connection; each takes the pair of its moment."""
        self.context.sni_callback = self._hand_out

    def look(self) -> None:
        """Take over what is in the folder now. Never raises: what was good stays."""
        try:
            contents = self._contents()
            if contents == self._seen:
                return
            self._now = self._loaded()
        except CertificateUnusable as error:
            if str(error) != self._complaint:  # looked at every second, said once
                log.error("The certificate stays as it was: %s", error)
            self._complaint = str(error)
            return
        # What was read is remembered after it was loaded: halves of two pairs are looked at again.
        self._seen, self._complaint = contents, ""
        log.info("New connections get the certificate that %s has now.", self._folder)

    def _hand_out(self, connection: ssl.SSLObject | ssl.SSLSocket, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = self._now

    def _contents(self) -> tuple[bytes, bytes]:
        try:
            return (self._folder / CERTIFICATE).read_bytes(), (self._folder / KEY).read_bytes()
        except OSError as error:
            raise _unusable(f"{Path(error.filename).name} cannot be read ({error.strerror})") from error

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # A password, or a key that has one would be asked for on a terminal that nobody sees.
            context.load_cert_chain(self._folder / CERTIFICATE, self._folder / KEY, password="")
        except ssl.SSLError as error:
            why = error.reason or "no PEM"
            raise _unusable(f"{CERTIFICATE} and {KEY} are no pair that can be used ({why})") from error
        except OSError as error:
            raise _unusable(f"its files cannot be read ({error.strerror})") from error
        return context


def _unusable(why: str) -> CertificateUnusable:
    return CertificateUnusable(
        f"The Secret of spec.server.tlsSecretName cannot be used: {why}. It needs a certificate chain in {CERTIFICATE} "
        f"and its private key, without a password, in {KEY}, as Secrets of type kubernetes.io/tls have them."
    )
