"""The manual explains every phase and reason of the code, and its pages load nothing from other sites."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from gaudi_operator.api.v1alpha1.status import RevisionPhase
from gaudi_operator.core.problems.resolution import RESOLVED_BY_OTHERS
from gaudi_operator.core.status import conditions
from gaudi_runtime.contract.report import Phase
from gaudi_runtime.errors import RuntimeStartError

DOCS = Path(__file__).parents[2] / "docs"
CONCEPTS = (DOCS / "start" / "concepts.md").read_text()
CONDITIONS = (DOCS / "reference" / "conditions.md").read_text()
TROUBLESHOOT = (DOCS / "how-to" / "troubleshoot.md").read_text()
REVISIONS = (DOCS / "how-to" / "revisions.md").read_text()


def rows(page: str) -> set[str]:
    """Return the names in the first cells of all tables."""
    first = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    return {name for cell in first for name in re.findall(r"`(\w+)`", cell)}


def reasons_of_runtimes(above: type[RuntimeStartError] = RuntimeStartError) -> Iterator[str]:
    """Return the reasons of all errors that a report may have."""
    for error in above.__subclasses__():
        yield getattr(error, "reason", "StartFailed")
        yield from reasons_of_runtimes(error)


SECTION = TROUBLESHOOT.partition("## Stalled: ")[2].partition("\n## ")[0]
STALLED = rows("\n".join(line for line in SECTION.splitlines() if line.count(" | ") == 3))


def test_every_phase_of_a_pod_is_explained() -> None:
    assert set(Phase) <= rows(CONCEPTS.partition("## A pod, from")[2].partition("\n## ")[0])


def test_every_reason_of_progress_is_explained() -> None:
    documented = rows(CONDITIONS.partition("## Ready and Reconciling")[2].partition("\n## ")[0])
    judged = (conditions.judge_ready, conditions._judge_zero_replicas, conditions._describe_progress)
    reasons = set(re.findall(r'"([A-Z]\w+)"', "".join(map(inspect.getsource, judged))))
    assert documented == {*reasons, "Reconciled", "NotStalled"}


def test_every_phase_of_a_revision_is_explained() -> None:
    assert set(RevisionPhase) <= rows(REVISIONS)


@pytest.mark.parametrize("reason", sorted({*reasons_of_runtimes(), *RESOLVED_BY_OTHERS}))
def test_every_reason_of_the_code_is_documented(reason: str) -> None:
    assert reason in STALLED


def test_every_reason_of_stalled_has_an_action() -> None:
    lines = [line for line in SECTION.splitlines() if line.startswith("| `") and line.count(" | ") == 3]
    actions = {line: line.rsplit(" | ", 1)[1].strip(" |") for line in lines}
    assert [line for line, action in actions.items() if not action] == []
    # The first row must not begin with "the same", because these words refer to the row above.
    assert not actions[lines[0]].startswith("the same")


def test_alerts_do_not_repeat_the_table_of_reasons() -> None:
    assert rows(TROUBLESHOOT.partition("## Stalled: ")[0]) & STALLED == set()


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_every_test_named_in_a_page_exists(page: Path) -> None:
    named = set(re.findall(r"`((?:\w+/)*test_\w+\.py)`", page.read_text()))
    tests = [f"/{path.relative_to(DOCS.parent).as_posix()}" for path in (DOCS.parent / "tests").rglob("test_*.py")]
    assert [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in tests)] == []


def built(folder: Path, **changes: str) -> Path:
    """Build the manual with the strict rules of `make lint`."""
    build(load_config(str(DOCS.parent / "mkdocs.yml"), site_dir=str(folder / "site"), **changes))
    return folder / "site"


def test_pages_load_no_scripts_styles_or_images_from_other_hosts(tmp_path: Path) -> None:
    pages = "".join(page.read_text() for page in built(tmp_path).rglob("*.html"))
    fetched = re.findall(r"<(?:script|img|iframe|source)[^>]*src=[\"']?([^\"' >]+)", pages)
    fetched += re.findall(r"<link[^>]*rel=[\"']?(?:stylesheet|preconnect|icon)[^>]*href=[\"']?([^\"' >]+)", pages)
    assert fetched
    assert not [address for address in fetched if re.match(r"(https?:)?//", address)]


def test_broken_link_to_the_repository_fails_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(DOCS.parent)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[an example](../examples/none.yaml)\n")
    (tmp_path / "mkdocs.yml").write_text(f"site_name: x\nstrict: true\nhooks: [{DOCS.parent}/scripts/manual.py]\n")
    with pytest.raises(Abort, match="strict mode"):
        build(load_config(str(tmp_path / "mkdocs.yml"), site_dir=str(tmp_path / "site")))
    assert "../examples/none.yaml" in caplog.text


PICTURE = "```mermaid\nflowchart TB\n  a --> b\n```\n"


def pages(folder: Path) -> dict[str, str]:
    """Build a manual of two pages, one with a picture, in `folder`."""
    (folder / "docs" / "below").mkdir(parents=True)
    (folder / "docs" / "index.md").write_text("# Words\n")
    (folder / "docs" / "below" / "picture.md").write_text(PICTURE)
    hook, extension = DOCS.parent / "scripts" / "manual.py", "markdown_extensions: [pymdownx.superfences]"
    settings = f"site_name: x\nuse_directory_urls: false\nhooks: [{hook}]\n{extension}\n"
    (folder / "mkdocs.yml").write_text(settings)
    build(load_config(str(folder / "mkdocs.yml"), site_dir=str(folder / "site")))
    return {page.name: page.read_text() for page in (folder / "site").rglob("*.html")}


def test_diagram_is_drawn_by_the_bundled_mermaid_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build" / "mermaid").mkdir(parents=True)
    (tmp_path / "build" / "mermaid" / "mermaid.min.js").write_text("// draws")
    found = pages(tmp_path)
    assert '<pre class="mermaid">' in found["picture.html"]
    assert '<script src="../files/mermaid.min.js">' in found["picture.html"]
    assert "mermaid" not in found["index.html"]
    assert (tmp_path / "site" / "files" / "mermaid.min.js").read_text() == "// draws"


def test_diagram_is_shown_as_text_without_the_mermaid_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = pages(tmp_path)["picture.html"]
    assert "flowchart" in page
    assert 'class="mermaid"' not in page
