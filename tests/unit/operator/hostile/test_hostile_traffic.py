"""Any content of a traffic file is processed by `gaudi-plan` within 512 MiB or refused with a message."""

import json
from pathlib import Path

import pytest

from tests.unit.operator.hostile.limited import gaudi_plan

TRAFFIC = {
    "a word of a megabyte": f"prompt 1 1 0 {'9' * 10**6}",
    "orders to a terminal": "\0\x1b[2J prompt",
    "wide shapes": "".join(
        f"{phase} {10_000_000 + each} {query} {each + 10_000_000} 1e15\n"
        for each in range(0, 10_000, 2)
        for phase, query in (("prompt", 16_000_000 - each), ("decode", 1))
    ),
}


@pytest.fixture(scope="module")
def limits(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("limits") / "limits.json"
    largest = {"maxModelLen": 16_777_216, "maxNumSeqs": 256, "maxNumBatchedTokens": 16_777_216}
    engine, model = {"name": "sim"}, {"path": "/models", "servedNames": ["tiny"]}
    file.write_text(json.dumps({"version": "v1", "model": model, "engine": engine, "limits": largest}))
    return str(file)


@pytest.mark.parametrize("name", TRAFFIC)
def test_traffic_is_refused_with_one_line(name: str, limits: str, tmp_path: Path) -> None:
    traffic = tmp_path / "traffic.txt"
    traffic.write_text(TRAFFIC[name])
    ended = gaudi_plan("learn", "-f", limits, "--traffic", str(traffic))
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1), ended.stderr[-500:]
    assert len(ended.stderr) < 1000


@pytest.mark.parametrize("option", ["--graphs", "--decode-graphs", "--graph-bytes", "--warmup-seconds", "--kv-blocks"])
def test_number_of_hundreds_of_digits_is_refused(option: str, limits: str, tmp_path: Path) -> None:
    traffic = tmp_path / "traffic.txt"
    traffic.write_text("prompt 1 10 0 1\ndecode 1 1 1 1\n")
    ended = gaudi_plan("learn", "-f", limits, "--traffic", str(traffic), option, "9" * 400)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
