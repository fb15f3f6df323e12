"""A Gaudi card simulated on the CPU, with the names of Intel's software that vLLM's plugin uses."""
