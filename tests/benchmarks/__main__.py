"""`make bench`: run every benchmark in a process of its own, one after the other."""

import os
import platform
import subprocess
import sys

BENCHMARKS = (
    "planner",
    "traffic",
    "graph_counts",
    "learned_canary",
    "torch_engine",
    "warmup_by_strategy",
    "recipe_cache",
    "vllm_engine",
    "sim_runtimes",
    "gate_latency",
    "precheck",
    "endpoint_latency",
    "peers",
    "thousand",
    "upgrades",
)


def main() -> int:
    """Run all benchmarks. Return 1 if a limit was missed."""
    sys.stdout.write(f"{platform.platform()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}\n")
    missed = []
    for name in BENCHMARKS:
        sys.stdout.write(f"\n== {name}\n")
        sys.stdout.flush()
        if subprocess.run([sys.executable, "-m", f"tests.benchmarks.{name}"], check=False).returncode:
            missed.append(name)
    sys.stdout.write(f"\nMissed a limit or failed: {', '.join(missed) or 'none'}\n")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
