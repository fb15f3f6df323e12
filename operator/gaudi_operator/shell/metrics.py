"""What the operator counts about itself, in a registry of its own."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from gaudi_operator.shell.kinds import EVENT, LEASE, WATCHED

_PLURALS = {each.plural for each in (*WATCHED, EVENT, LEASE)}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
_GATE_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """All metrics of a process. A gauge for pods, not a label per pod: their number must not grow the series."""

    def __init__(self) -> None:
        """Everything at zero."""
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.leader = Gauge("gaudi_operator_leader", "1 on the replica that holds the Lease.", registry=registry)
        self.resources = Gauge("gaudi_operator_resources", "GaudiInferences served.", registry=registry)
        self.queued = Gauge("gaudi_operator_queue_depth", "Resources that wait for a pass.", registry=registry)
        self.warming = Gauge("gaudi_operator_pods_warming", "Pods that load, compile or capture.", registry=registry)
        self.passes = Counter("gaudi_operator_reconciles_total", "Passes, by outcome.", ["outcome"], registry=registry)
        self.seconds = Histogram(
            "gaudi_operator_reconcile_seconds", "Duration of a pass, writes included.", registry=registry
        )
        self.requests = Counter(
            "gaudi_operator_api_requests_total",
            "Requests to the API server, watches included when they start.",
            ["verb", "resource", "code"],
            registry=registry,
        )
        self.gate_seconds = Histogram(
            "gaudi_operator_gate_seconds",
            "From the report that opens a gate to the written gate.",
            buckets=_GATE_SECONDS,
            registry=registry,
        )
        self.reports = Counter(
            "gaudi_operator_reports_total",
            "Answers of pods, by whether they could be used.",
            ["outcome"],
            registry=registry,
        )

    def count_request(self, method: str, path: str, code: int, watch: bool = False) -> None:
        """Count one answered request by verb and resource, as the API server's own audit would."""
        parts = path.partition("?")[0].strip("/").split("/")
        known = [index for index, part in enumerate(parts) if part in _PLURALS]
        resource = "/".join((parts[known[-1]], *parts[known[-1] + 2 :])) if known else "other"
        verb = _VERBS.get(method, method.lower())
        if verb == "get" and known and known[-1] == len(parts) - 1:
            verb = "watch" if watch else "list"
        self.requests.labels(verb, resource, str(code)).inc()
