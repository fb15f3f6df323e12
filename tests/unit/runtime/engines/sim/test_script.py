"""docs/reference/sim.md lists exactly the keys of a script."""

import re
from pathlib import Path

from gaudi_runtime.engines.sim.script import SimScript

PAGE = Path(__file__).parents[5] / "docs" / "reference" / "sim.md"


def test_page_lists_exactly_the_keys() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    assert documented == {field.alias for field in SimScript.model_fields.values()}
