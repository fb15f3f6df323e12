"""Heat maps of a plan, batch size by length: pure values, drawn in a terminal or as SVG."""
