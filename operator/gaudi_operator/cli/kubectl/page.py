"""`kubectl gaudi open`: forward a local port to the warm-up page of a pod while the command runs."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from gaudi_operator.cli.kubectl.buckets import Pod, default_pod_name
from gaudi_operator.cli.kubectl.options import CommandError, SelectedResource, with_resource
from gaudi_operator.core.resource import read_status
from gaudi_runtime.contract.ports import STATUS_PORT_NAME
from gaudi_runtime.contract.text import make_one_line

_FORWARDING = re.compile(r"^Forwarding from (127\.0\.0\.1|\[::1\]):(\d+) ")

Port = Annotated[int, typer.Option(min=0, max=65535, help="Local port; 0 selects a free port.")]


@with_resource
def open_page(asked: SelectedResource, pod: Pod = None, port: Port = 0) -> None:
    """Forward a local port to a pod's warm-up page, and print the address. Ctrl-C stops the forwarding."""
    name = pod or default_pod_name(read_status(asked.cluster.fetch_inference(asked.name)))
    if name is None:
        raise CommandError(f"{asked.full_name} has no pods yet")
    # Forward the port with kubectl. kubectl supports every way to reach a pod, and is installed on every machine that
    # runs its plugins.
    command = ["kubectl", "port-forward", f"--namespace={asked.cluster.namespace}", *asked.cluster.kubectl_options()]
    command += [f"pod/{name}", f"{port or ''}:{STATUS_PORT_NAME}"]
    # Ctrl-C ends both processes, but SIGTERM reaches only this process. Exit on SIGTERM, so that the code below also
    # ends kubectl.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarding:
            try:
                for line in page_addresses(forwarding.stdout or ()):
                    typer.echo(f"{line}  (pod {make_one_line(name)}; Ctrl-C ends it)")
                code = forwarding.wait()
            finally:
                forwarding.terminate()
    except FileNotFoundError as error:
        raise CommandError("kubectl is not on the PATH, but is needed to forward the port") from error
    except KeyboardInterrupt:
        return
    if code:
        raise CommandError(f"kubectl port-forward ended with code {code}")


def page_addresses(lines: Iterable[str]) -> Iterable[str]:
    """Yield the address of the warm-up page after kubectl has started to forward the port. Other lines are dropped."""
    said = False
    for line in lines:
        found = _FORWARDING.match(line)
        if found and not said:
            said = True
            yield f"http://{found[1]}:{found[2]}/"
