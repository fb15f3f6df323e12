"""`make release TAG=v0.1.0`: the files of dist/ from a tag."""

import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from scripts.chart_docs import ROOT
from scripts.release import build
from scripts.release.advisories import scan
from scripts.release.pins import pins

Tag = Annotated[str, typer.Argument(help="Tag to release, such as v0.1.0.")]
Packages = Annotated[Path, typer.Option(help="Folder with hatchling (requirements/build.txt).")]
Out = Annotated[Path, typer.Option(help="Folder for the files; its old content is removed.")]
Address = Annotated[str, typer.Option(help="Download address of the files, for krew's manifest.")]
Registry = Annotated[str, typer.Option(help="Registry and folder from which nodes pull the images, for the bundle.")]
Images = Annotated[str, typer.Option(help="Images to archive: operator and runtime, separated by spaces.")]
Advisories = Annotated[
    Path | None, typer.Option(help="Folder of advisories in the OSV format; without it nothing is scanned.")
]


def release(
    tag: Tag,
    packages: Packages,
    out: Out = ROOT / "dist",
    address: Address = "https://example.com/releases/",
    registry: Registry = "registry.example.com/ai",
    images: Images = "",
    advisories: Advisories = None,
) -> None:
    """Build wheel, chart, manifests, krew archive, OLM bundle, SBOMs, archives of images, and their checksums."""
    if (tag_commit := _git("rev-list", "-n1", tag)) != _git("rev-parse", "HEAD"):
        _refuse(f"{tag} is {tag_commit or 'not a tag'}, but another commit is checked out: git checkout {tag}.")
    if images and _git("status", "--porcelain"):
        _refuse("The working tree has changes that would become part of the images. Commit or stash them.")
    for path in out.glob("*"):
        path.unlink()
    with tempfile.TemporaryDirectory() as folder:
        tree = build.source(tag, Path(folder))
        if tag != f"v{tree.version}":
            _refuse(f"{tag} has version {tree.version}: name the tag v{tree.version}, or change the version first.")
        build.build(tree, out, packages.resolve(), address, registry)
        _check_advisories(tree, advisories)
    build.save_images(images.split(), tree.version, out)
    (out / build.SUMS).write_text(build.sums(out))
    typer.echo((out / build.SUMS).read_text(), nl=False)


def _check_advisories(source: build.Source, advisories: Path | None) -> None:
    """Refuse the release if the list contains an advisory for a shipped pin."""
    if advisories is None:
        typer.echo("No list of advisories is given (ADVISORIES=FOLDER): the pins were not checked.", err=True)
        return
    names = sorted({name for files in build.SBOMS.values() for name in files})
    shipped = {pin for name in names for pin in pins((source.folder / "requirements" / f"{name}.txt").read_text())}
    findings = scan(sorted(shipped, key=lambda pin: pin.name), advisories)
    for finding in findings:
        typer.echo(str(finding), err=True)
    if findings:
        _refuse(
            f"{len(findings)} advisories apply to shipped pins. Raise the pins, or explain in SECURITY.md why "
            "they do not apply."
        )


def _git(*arguments: str) -> str:
    process = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return process.stdout.strip()


def _refuse(sentence: str) -> None:
    typer.echo(sentence, err=True)
    raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(release)
