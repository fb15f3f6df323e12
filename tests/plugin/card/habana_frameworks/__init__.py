"""A Gaudi card simulated on the CPU. The package has the names of Intel's software that vLLM's plugin uses."""
