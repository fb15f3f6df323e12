"""The resources that people copy: what examples/ holds, but values of a chart."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(path for path in FOLDER.rglob("*.yaml") if path.name != "values.yaml")
