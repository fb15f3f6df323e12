"""`kubectl gaudi rollout`: history, undo, pause, resume and restart."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from gaudi_operator.cli.kubectl import patches, revisions
from gaudi_operator.cli.kubectl.asking import Asked, Refused, asks
from gaudi_operator.core.rollout.revision import Revision, stored_revisions

RevisionOption = Annotated[str | None, typer.Option("--revision", help="Show all of this one: a number or a name.")]
ToRevision = Annotated[
    str | None, typer.Option("--to-revision", help="A number or a name; the one that ran before when left out.")
]
Force = Annotated[bool, typer.Option("--force", help="Go back to a revision even if it failed before.")]


@asks
def history(asked: Asked, revision: RevisionOption = None) -> None:
    """Show the kept revisions, or what one of them was made from."""
    resource, stored = asked.cluster.inference(asked.name), _stored(asked)
    if revision in revisions.UNSAID:
        typer.echo(asked.full_name)
        for line in revisions.columns(list(revisions.rows(resource, stored))):
            typer.echo(line)
        return
    import yaml

    shown = revisions.named(stored, str(revision))
    typer.echo(f"{asked.full_name} with revision #{shown.number}")
    typer.echo(yaml.safe_dump(revisions.details(resource, shown), sort_keys=False, width=120), nl=False)


@asks
def undo(asked: Asked, to_revision: ToRevision = None, force: Force = False) -> None:
    """Make the spec ask for an earlier revision again; replicas, thresholds and the rollout's settings stay."""
    resource, stored = asked.cluster.inference(asked.name), _stored(asked)
    to = revisions.chosen(resource, stored, to_revision)
    patch = patches.undo(resource, to)
    _warn(to, force)
    if to.failure:
        asked.cluster.patch_revision(asked.name, to.name, patches.TRY_AGAIN)
    if patch:
        asked.cluster.patch(asked.name, patch)
    if patch or to.failure:
        typer.echo(f"{asked.full_name} rolled back to revision {to.number} ({to.name})")
    else:
        typer.echo(f"{asked.full_name} skipped rollback (the spec already asks for revision {to.number}, {to.name})")


@asks
def pause(asked: Asked) -> None:
    """Hold the rollout where it is; what serves goes on serving."""
    asked.cluster.patch(asked.name, patches.pause(asked.cluster.inference(asked.name)))
    typer.echo(f"{asked.full_name} paused")


@asks
def resume(asked: Asked) -> None:
    """Let a paused rollout go on."""
    asked.cluster.patch(asked.name, patches.resume(asked.cluster.inference(asked.name)))
    typer.echo(f"{asked.full_name} resumed")


@asks
def restart(asked: Asked) -> None:
    """Replace all pods within the limits of spec.rollout, or try a failed revision once more."""
    now = datetime.now(UTC).isoformat()
    asked.cluster.patch(asked.name, patches.restart(asked.cluster.inference(asked.name), now))
    typer.echo(f"{asked.full_name} restarted")


def _stored(asked: Asked) -> tuple[Revision, ...]:
    return stored_revisions(asked.cluster.revisions(asked.name))


def _warn(to: Revision, force: bool) -> None:
    failed = revisions.why_not_back(to)
    if failed and not force:
        raise Refused(f"{failed}. With --force it is tried once more")
    if failed:
        typer.echo(f"warning: {failed}. It is tried once more.", err=True)
