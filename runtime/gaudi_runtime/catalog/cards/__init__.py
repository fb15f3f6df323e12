"""Described accelerator cards: memory and rates as data, each figure with its source (docs/memory.md, Cards)."""
