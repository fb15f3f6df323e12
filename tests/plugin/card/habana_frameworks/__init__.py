"""A Gaudi card played by the CPU: the names of Intel's software that vLLM's plugin uses (tests/plugin/README.md)."""
