"""Which shapes a server prepares: pure values and arithmetic (docs/bucketing.md)."""
