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
def open_page(selection: SelectedResource, pod: Pod = None, port: Port = 0) -> None:
    """Forward a local port to a pod's warm-up page, and print the address. Ctrl-C stops the forwarding."""
    cluster = selection.cluster
    pod_name = pod or default_pod_name(read_status(cluster.fetch_inference(selection.name)))
    if pod_name is None:
        raise CommandError(f"{selection.full_name} has no pods yet")
    # Forward the port with kubectl. kubectl supports every way to reach a pod, and is installed on every machine that
    # runs its plugins.
    command = ["kubectl", "port-forward", f"--namespace={cluster.namespace}", *cluster.kubectl_options()]
    command += [f"pod/{pod_name}", f"{port or ''}:{STATUS_PORT_NAME}"]
    # Ctrl-C ends both processes, but SIGTERM reaches only this process. Exit on SIGTERM, so that the code below also
    # ends kubectl.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                for address in page_addresses(process.stdout or ()):
                    typer.echo(f"{address}  (pod {make_one_line(pod_name)}; Ctrl-C ends it)")
                exit_code = process.wait()
            finally:
                process.terminate()
    except FileNotFoundError as error:
        raise CommandError("kubectl is not on the PATH, but is needed to forward the port") from error
    except KeyboardInterrupt:
        return
    if exit_code:
        raise CommandError(f"kubectl port-forward ended with code {exit_code}")


def page_addresses(lines: Iterable[str]) -> Iterable[str]:
    """Yield the address of the warm-up page after kubectl has started to forward the port. Other lines are dropped."""
    is_forwarding = False
    for line in lines:
        match = _FORWARDING.match(line)
        if match and not is_forwarding:
            is_forwarding = True
            yield f"http://{match[1]}:{match[2]}/"
