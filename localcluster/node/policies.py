"""NetworkPolicies as rules of a packet filter, made from a snapshot of the cluster.

The rules support ingress with pod and namespace selectors, address ranges, and ports by number and by name. Changes are
not watched, so the caller must create new rules after pods or policies change. `make ecosystem` tests the same policies
with kube-router, which watches for changes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any

Object = Mapping[str, Any]
CHAIN = "POLICIES"


def filter_rules(pods: Collection[Object], namespaces: Iterable[Object], policies: Collection[Object]) -> str:
    """Return the input of `iptables-restore --noflush`: the chain POLICIES for packets that are forwarded to pods.

    Packets from the node itself are not forwarded, so probes of the kubelet and the API server's proxy reach every pod.
    """
    namespace_labels = {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in namespaces}
    chains: list[tuple[str, list[str]]] = []
    jumps = [f"-A {CHAIN} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN"]
    for pod in pods:
        pod_policies = [policy for policy in policies if _selects(policy, pod)]
        address = _address(pod)
        if not pod_policies or address is None:
            continue
        name = f"{CHAIN}-{len(chains)}"
        jumps.append(f"-A {CHAIN} -d {address}/32 -j {name}")
        rules = {rule for policy in pod_policies for rule in _allowed(policy, pod, pods, namespace_labels)}
        chains.append((name, [*(f"-A {name} {rule}-j RETURN" for rule in sorted(rules)), f"-A {name} -j REJECT"]))
    declarations = [f":{name} - [0:0]" for name in (CHAIN, *(name for name, _ in chains))]
    return "\n".join(["*filter", *declarations, *jumps, *(line for _, lines in chains for line in lines), "COMMIT", ""])


def _selects(policy: Object, pod: Object) -> bool:
    spec = policy["spec"]
    local = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    # A policy without `policyTypes` always applies to ingress. It applies to egress only if it has egress rules.
    return local and "Ingress" in spec.get("policyTypes", ["Ingress"]) and _matches(spec["podSelector"], _labels(pod))


def _allowed(policy: Object, pod: Object, pods: Iterable[Object], labels: Mapping[str, Object]) -> Iterator[str]:
    """Yield the match options of packets that one policy allows to the pod."""
    for rule in policy["spec"].get("ingress") or ():
        # A rule without peers allows all sources. A rule without ports allows all ports.
        sources = (
            [""]
            if not rule.get("from")
            else [source for peer in rule["from"] for source in _sources(peer, policy, pods, labels)]
        )
        ports = [""] if not rule.get("ports") else [option for port in rule["ports"] for option in _ports(port, pod)]
        yield from (f"{source}{port}" for source in sources for port in ports)


def _sources(peer: Object, policy: Object, pods: Iterable[Object], labels: Mapping[str, Object]) -> Iterator[str]:
    if ip_block := peer.get("ipBlock"):
        network = IPv4Network(ip_block["cidr"])
        ranges = [network]
        for excluded in map(IPv4Network, ip_block.get("except") or ()):
            ranges = [remainder for address_range in ranges for remainder in _subtract(address_range, excluded)]
        yield from (f"-s {address_range} " for address_range in ranges)
        return
    for pod in pods:
        namespace = pod["metadata"]["namespace"]
        namespace_matches = (
            _matches(peer["namespaceSelector"], labels[namespace])
            if "namespaceSelector" in peer
            else namespace == policy["metadata"]["namespace"]
        )
        address = _address(pod)
        if namespace_matches and address and _matches(peer.get("podSelector") or {}, _labels(pod)):
            yield f"-s {address}/32 "


def _subtract(network: IPv4Network, excluded: IPv4Network) -> list[IPv4Network]:
    """Return the ranges of `network` that are not in `excluded`."""
    if not network.overlaps(excluded):
        return [network]
    return [] if network.subnet_of(excluded) else list(network.address_exclude(excluded))


def _ports(port: Object, pod: Object) -> Iterator[str]:
    protocol, target = port.get("protocol", "TCP"), port.get("port")
    if target is None:
        yield f"-p {protocol.lower()} "
    elif isinstance(target, int):
        range_end = f":{port['endPort']}" if "endPort" in port else ""
        yield f"-p {protocol.lower()} --dport {target}{range_end} "
    else:
        ports = (item for container in pod["spec"]["containers"] for item in container.get("ports") or ())
        targets = (item for item in ports if item.get("name") == target and item.get("protocol", "TCP") == protocol)
        yield from (f"-p {protocol.lower()} --dport {item['containerPort']} " for item in targets)


def _matches(selector: Object, labels: Object) -> bool:
    pairs = (selector.get("matchLabels") or {}).items()
    return pairs <= labels.items() and all(_holds(term, labels) for term in selector.get("matchExpressions") or ())


def _holds(expression: Object, labels: Object) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
    return value is None


def _labels(pod: Object) -> Object:
    labels: Object = pod["metadata"].get("labels") or {}
    return labels


def _address(pod: Object) -> str | None:
    """Return the address of a running pod with its own address, or None for other pods."""
    status = pod.get("status") or {}
    if pod["spec"].get("hostNetwork") or status.get("phase") in ("Succeeded", "Failed"):
        return None
    address: str | None = status.get("podIP")
    return address
