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
    labels = {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in namespaces}
    chains: list[tuple[str, list[str]]] = []
    jumps = [f"-A {CHAIN} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN"]
    for pod in pods:
        selecting = [each for each in policies if _selects(each, pod)]
        address = _address(pod)
        if not selecting or address is None:
            continue
        name = f"{CHAIN}-{len(chains)}"
        jumps.append(f"-A {CHAIN} -d {address}/32 -j {name}")
        allowed = {rule for each in selecting for rule in _allowed(each, pod, pods, labels)}
        chains.append((name, [*(f"-A {name} {rule}-j RETURN" for rule in sorted(allowed)), f"-A {name} -j REJECT"]))
    heads = [f":{name} - [0:0]" for name in (CHAIN, *(name for name, _ in chains))]
    return "\n".join(["*filter", *heads, *jumps, *(line for _, lines in chains for line in lines), "COMMIT", ""])


def _selects(policy: Object, pod: Object) -> bool:
    spec = policy["spec"]
    here = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    # A policy without `policyTypes` always applies to ingress. It applies to egress only if it has egress rules.
    return here and "Ingress" in spec.get("policyTypes", ["Ingress"]) and _matches(spec["podSelector"], _labels(pod))


def _allowed(policy: Object, pod: Object, pods: Iterable[Object], labels: Mapping[str, Object]) -> Iterator[str]:
    """Yield the match options of packets that one policy allows to the pod."""
    for rule in policy["spec"].get("ingress") or ():
        # A rule without peers allows all sources. A rule without ports allows all ports.
        sources = (
            [""]
            if not rule.get("from")
            else [each for peer in rule["from"] for each in _sources(peer, policy, pods, labels)]
        )
        ports = [""] if not rule.get("ports") else [each for port in rule["ports"] for each in _ports(port, pod)]
        yield from (f"{source}{port}" for source in sources for port in ports)


def _sources(peer: Object, policy: Object, pods: Iterable[Object], labels: Mapping[str, Object]) -> Iterator[str]:
    if block := peer.get("ipBlock"):
        whole = IPv4Network(block["cidr"])
        ranges = [whole]
        for left_out in map(IPv4Network, block.get("except") or ()):
            ranges = [each for one in ranges for each in _without(one, left_out)]
        yield from (f"-s {each} " for each in ranges)
        return
    for pod in pods:
        namespace = pod["metadata"]["namespace"]
        inside = (
            _matches(peer["namespaceSelector"], labels[namespace])
            if "namespaceSelector" in peer
            else namespace == policy["metadata"]["namespace"]
        )
        address = _address(pod)
        if inside and address and _matches(peer.get("podSelector") or {}, _labels(pod)):
            yield f"-s {address}/32 "


def _without(whole: IPv4Network, part: IPv4Network) -> list[IPv4Network]:
    """Return the ranges of `whole` that are not in `part`."""
    if not whole.overlaps(part):
        return [whole]
    return [] if whole.subnet_of(part) else list(whole.address_exclude(part))


def _ports(port: Object, pod: Object) -> Iterator[str]:
    protocol, wanted = port.get("protocol", "TCP"), port.get("port")
    if wanted is None:
        yield f"-p {protocol.lower()} "
    elif isinstance(wanted, int):
        last = f":{port['endPort']}" if "endPort" in port else ""
        yield f"-p {protocol.lower()} --dport {wanted}{last} "
    else:
        every = (each for container in pod["spec"]["containers"] for each in container.get("ports") or ())
        named = (each for each in every if each.get("name") == wanted and each.get("protocol", "TCP") == protocol)
        yield from (f"-p {protocol.lower()} --dport {each['containerPort']} " for each in named)


def _matches(selector: Object, labels: Object) -> bool:
    wanted = (selector.get("matchLabels") or {}).items()
    return wanted <= labels.items() and all(_holds(each, labels) for each in selector.get("matchExpressions") or ())


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
    found: Object = pod["metadata"].get("labels") or {}
    return found


def _address(pod: Object) -> str | None:
    """Return the address of a running pod with its own address, or None for other pods."""
    status = pod.get("status") or {}
    if pod["spec"].get("hostNetwork") or status.get("phase") in ("Succeeded", "Failed"):
        return None
    address: str | None = status.get("podIP")
    return address
