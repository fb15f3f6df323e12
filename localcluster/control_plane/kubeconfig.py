"""Kubeconfig files."""

import base64
from pathlib import Path

import yaml


def write_kubeconfig(path: Path, server: str, pki: Path, user: str, cluster: str) -> None:
    """Write a self-contained kubeconfig for the certificate `user` in `pki`, readable only by the owner."""

    def encode_file(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": server, "certificate-authority-data": encode_file("ca.crt")}}
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": encode_file(f"{user}.crt"),
                    "client-key-data": encode_file(f"{user}.key"),
                },
            }
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
