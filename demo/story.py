"""The steps of the demo: cluster, images, chart, plan, model, table, chat, upgrade, and what to do next."""

from pathlib import Path

from rich.markup import escape

from demo import install, screen
from demo.client_pod import ClientPod
from demo.example import EXAMPLE, MANIFEST, MODEL, SHORT_PROMPTS
from demo.install import Installation
from demo.load import Answer, Traffic
from demo.plan import show_plan, show_prompt_change
from demo.reports import ReportRecorder
from demo.resource import Resource, is_ready
from demo.screen import console, print_headline
from localcluster import remove_cluster

NAMESPACE = "demo"
READY_SECONDS = 600
CHAT = Path(__file__).with_name("chat.py")


def run() -> None:
    """Run all steps in order. Raises LocalClusterError or TimeoutError with a sentence if a step fails."""
    print_headline(1, "A Kubernetes cluster, images from the Dockerfile, and the Helm chart")
    installed = install.ensure_installation("demo")
    print_headline(2, f"gaudi-plan buckets -f examples/{EXAMPLE}.yaml: what every pod will prepare")
    show_plan(MANIFEST, console)
    print_headline(3, f"kubectl apply -f examples/{EXAMPLE}.yaml: vLLM on the CPU, gated on its compiled buckets")
    installed.apply_example(EXAMPLE, NAMESPACE)
    resource = Resource(str(installed.kubeconfig), NAMESPACE, EXAMPLE)
    show_until_ready(resource)
    console.print(installed.kubectl("get", "gi", "--namespace", NAMESPACE))
    print_headline(4, "A streamed chat completion through the Service (random weights: the words are noise)")
    chat(installed)
    print_headline(
        5, "A rolling upgrade under load: another bucket for short prompts, and the recipes of the first pod"
    )
    upgrade(installed, resource)
    print_headline(6, "What to try next")
    print_next_commands(installed.kubeconfig)


def show_until_ready(resource: Resource) -> None:
    """Show the live table of warm-up until the current generation is Ready."""
    with screen.LiveTable() as table:
        for state in resource.states(READY_SECONDS):
            table.show(state)
            if is_ready(state):
                return


def chat(installed: Installation) -> None:
    """Send a chat request from a pod of the cluster."""
    pod = ClientPod(installed.kubectl, NAMESPACE, "chat", install.RUNTIME_IMAGE, CHAT)
    pod.start(f"{EXAMPLE}.{NAMESPACE}", MODEL, "What is a bucket?")
    console.print(f"[green]{MODEL}:[/green] {escape(repr(pod.finish().strip()))}")


def upgrade(installed: Installation, resource: Resource) -> None:
    """Roll out a new revision while a client pod sends requests, and print the results of the requests."""
    show_prompt_change(MANIFEST, SHORT_PROMPTS, console)
    traffic = Traffic(installed.kubectl, NAMESPACE, install.RUNTIME_IMAGE)
    traffic.start(EXAMPLE, MODEL, pause=0.2, mixed_sampling=True)
    with ReportRecorder(str(installed.kubeconfig), NAMESPACE, EXAMPLE) as recorder:
        resource.patch(SHORT_PROMPTS)
        show_until_ready(resource)
        answers = traffic.stop()
    console.print(summarize_answers(answers, recorder.cold_requests()))


def summarize_answers(answers: list[Answer], cold: int) -> str:
    """Return a line with the numbers of requests, failures, and batches without a warm graph (`cold`)."""
    failures = [answer for answer in answers if answer.error]
    stream_count = sum(answer.stream for answer in answers)
    colour = "red" if failures or cold else "green"
    summary = f"{len(answers)} requests sent ({stream_count} streamed), {len(failures)} failed, {cold} met a cold graph"
    return f"[bold {colour}]{summary}[/bold {colour}]" + "".join(
        f"\n  {escape(answer.error)}" for answer in failures[:5]
    )


def print_next_commands(kubeconfig: Path) -> None:
    """Print commands to try next, and the command to clean up."""
    console.print(f"  export KUBECONFIG={kubeconfig}")
    for command in (
        f"kubectl --namespace {NAMESPACE} get gi,rs,pods,svc -o wide",
        f"kubectl --namespace {NAMESPACE} describe gi {EXAMPLE}",
        f"kubectl --namespace {NAMESPACE} scale gi/{EXAMPLE} --replicas=2",
        "kubectl explain gi.spec.warmup",
        "make demo-clean      # remove the cluster; README.md lists what stays",
    ):
        console.print(f"  {command}")


def clean() -> None:
    """Remove the cluster that the demo started."""
    remove_cluster("demo")
