"""Writes the plot of the manual, docs/pictures/graphs.svg. It is `gaudi-plan forecast -o svg` for an example.

python -m scripts.plots          write the file
python -m scripts.plots --check  fail if it is out of date
"""

import sys

from gaudi_operator.cli.plan.comparison import draw_comparison
from gaudi_operator.cli.plan.document import parse_document, read_plan_document
from scripts.generated import ROOT, write_or_check

EXAMPLE = ROOT / "examples" / "vllm" / "llama-3.1-8b.yaml"
PLOT = ROOT / "docs" / "pictures" / "graphs.svg"


if __name__ == "__main__":
    sys.exit(write_or_check({PLOT: draw_comparison(read_plan_document(parse_document(EXAMPLE.read_text())))}))
