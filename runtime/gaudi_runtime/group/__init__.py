"""One replica over several pods: a leader that serves, and ranks that do what it says (docs/several-nodes.md)."""
