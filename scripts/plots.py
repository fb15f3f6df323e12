"""The plots of the manual: docs/pictures/graphs.svg, as `gaudi-plan compare -o svg` draws it for an example.

python -m scripts.plots          write the file
python -m scripts.plots --check  fail if it is old
"""

import sys
from pathlib import Path

from gaudi_operator.cli.plan.comparison import compare
from gaudi_operator.cli.plan.question import parse, read_question

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "vllm" / "llama-3.1-8b.yaml"
PLOT = ROOT / "docs" / "pictures" / "graphs.svg"


def drawn() -> str:
    """Return the text of the plot for the example."""
    picture = compare(read_question(parse(EXAMPLE.read_text()))).picture
    if picture is None:
        raise AssertionError("a comparison has a picture")
    return picture()


def main() -> int:
    """Write the file, or with --check only say that it is old."""
    text = drawn()
    if "--check" in sys.argv[1:]:
        if PLOT.exists() and PLOT.read_text() == text:
            return 0
        sys.stderr.write(f"{PLOT.relative_to(ROOT)} is old: run make generate.\n")
        return 1
    PLOT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
