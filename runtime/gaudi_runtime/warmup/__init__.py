"""Compiling and capturing the buckets of a plan before the first request (docs/warmup.md)."""
