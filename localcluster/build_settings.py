"""How this machine reaches packages, handed to image builds without a trace in the images.

The settings lie in one folder that is mounted where every Debian image has an empty one, and uv's cache in
another. Build arguments, which last for a build step and not for the image, point the package managers at
them. Proxies are passed on by buildah itself.
"""

import configparser
import json
import os
import shutil
import ssl
import subprocess
from pathlib import Path

from localcluster.errors import LocalClusterError

MOUNT = "/mnt"
CACHE_MOUNT = "/media"
SUITE = "bookworm"
_ARGUMENTS = {
    "APT_CONFIG": "apt.conf",
    "PIP_CONFIG_FILE": "pip.conf",
    "SSL_CERT_FILE": "ca.crt",
    "UV_CONFIG_FILE": "uv.toml",
}
_PIP_FILES = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
_PIP_VARIABLES = ("PIP_DEFAULT_TIMEOUT", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_TRUSTED_HOST")
_UV_FILES = ("~/.config/uv/uv.toml", "/etc/uv/uv.toml")


def debian_sources() -> list[str]:
    """Where this machine gets Debian packages from, as lines of a sources.list; none if that is elsewhere."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)"]
    shown = subprocess.run([*command, "Identifier: Packages"], capture_output=True, text=True, check=False)
    found = {tuple(line.split()) for line in shown.stdout.splitlines()}
    return [
        f"deb {target[0]} {target[1]} {target[2]}"
        for target in sorted(found)
        if target[3:] == ("Debian",) and target[1].startswith(SUITE)
    ]


def debian_mirror() -> str | None:
    """The machine's mirror of the main archive."""
    sources = (line.split() for line in debian_sources())
    return next((url for _, url, suite, _ in sources if suite == SUITE), None)


def write_settings(folder: Path) -> None:
    """Fill `folder`, which is to be mounted at /mnt."""
    if not shutil.which("apt-config"):
        raise LocalClusterError("Images are built from Debian packages: run this on Debian or Ubuntu.")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "apt.conf").write_text(_apt_settings(folder))
    if authorities := _certificate_authorities():
        shutil.copy(authorities, folder / "ca.crt")
    pip = _pip_settings(trusted=bool(authorities))
    with (folder / "pip.conf").open("w") as file:
        pip.write(file)
    (folder / "uv.toml").write_text(_uv_settings(pip.get("global", "index-url", fallback=None)))


def package_cache() -> Path:
    """uv's own cache, to be mounted at /media: what `make setup` or another image has fetched is not fetched again."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("UV_CACHE_DIR") or caches / "uv")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def with_settings(dockerfile: str, folder: Path) -> str:
    """The Dockerfile with the build arguments that point at what `folder` has and at the cache, in every stage."""
    arguments = [f"ARG {name}={MOUNT}/{file}" for name, file in _ARGUMENTS.items() if (folder / file).exists()]
    arguments.append(f"ARG UV_CACHE_DIR={CACHE_MOUNT}")
    lines = []
    for line in dockerfile.splitlines():
        lines += [line, *(arguments if line.startswith("FROM ") else [])]
    return "\n".join(lines) + "\n"


def _apt_settings(folder: Path) -> str:
    """The machine's way to its mirrors, and its mirrors where it has Debian's."""
    dumped = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    wanted = ("Acquire::http", "Acquire::https", "Acquire::Retries")
    lines = [line for line in dumped.splitlines() if line.startswith(wanted)]
    if sources := debian_sources():
        (folder / "sources.list").write_text("\n".join(sources) + "\n")
        lines.append(f'Dir::Etc::SourceList "{MOUNT}/sources.list";')
        lines.append('Dir::Etc::SourceParts "/dev/null";')
    return "\n".join(lines) + "\n"


def _pip_settings(*, trusted: bool) -> configparser.ConfigParser:
    """The machine's pip.conf files with its PIP_ variables on top."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read([Path(name).expanduser() for name in _PIP_FILES])
    if "global" not in settings:
        settings["global"] = {}
    for variable in _PIP_VARIABLES:
        if value := os.environ.get(variable):
            settings["global"][variable.removeprefix("PIP_").lower().replace("_", "-")] = value
    settings["global"].pop("cert", None)
    if trusted:
        settings["global"]["cert"] = f"{MOUNT}/ca.crt"
    return settings


def _uv_settings(pip_index: str | None) -> str:
    """The machine's uv.toml, or else the index that its variables or pip's settings name."""
    for file in (Path(name).expanduser() for name in _UV_FILES):
        if file.is_file():
            return file.read_text()
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL") or pip_index
    return f"index-url = {json.dumps(index)}\n" if index else ""


def _certificate_authorities() -> str | None:
    candidates = (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().openssl_cafile)
    known = (*candidates, "/etc/ssl/certs/ca-certificates.crt")
    return next((path for path in known if path and Path(path).is_file()), None)
