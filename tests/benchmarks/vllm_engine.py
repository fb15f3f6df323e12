"""The vllm engine compared with vLLM's own server: serving overhead, starts, and first requests.

    python -m tests.benchmarks.vllm_engine [PAIRS]

The model is a tiny Llama in float32 on the CPU. Both servers get the same arguments and environment. The client is the
client of vLLM's own benchmark. The exit code is 1 if a limit is missed.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from examples.make_tiny_checkpoint import make_checkpoint
from gaudi_runtime.contract.bucketing import BucketingRangeSettings
from gaudi_runtime.contract.config import ExecutionMode, RuntimeConfig, WarmupConfig
from tests.benchmarks import figures, vllm_first_requests, vllm_overhead, vllm_starts
from tests.benchmarks.figures import Figure
from tests.benchmarks.vllm_first_requests import Firsts, compiles_met
from tests.benchmarks.vllm_load import import_client
from tests.benchmarks.vllm_overhead import Comparison, Runs
from tests.benchmarks.vllm_servers import ours, theirs
from tests.benchmarks.vllm_starts import Start, our_start, their_start
from tests.vllm.configs import vllm_config

WIDTH = 120
STARTS = 3
INDUCTOR = "TORCHINDUCTOR_CACHE_DIR"
OURS, THEIRS = "ours, eager", "vLLM's own server, eager"
SERVERS = {OURS: (ours, our_start), THEIRS: (theirs, their_start)}
COLD, KEPT, UNWARMED = (
    "ours, torchCompile, nothing compiled before",
    "ours, torchCompile, compiled code kept",
    "ours, torchCompile, without warm-up",
)


def eager_config(folder: Path) -> RuntimeConfig:
    """Return a configuration that allows 32 sequences and in which no shape is ever cold."""
    batches = BucketingRangeSettings(min=1, step=8, max=32)
    return vllm_config(folder / "model", folder, batch_sizes=batches, max_num_seqs=32, max_num_batched_tokens=512)


def compiled_config(folder: Path, *, warm: bool = True) -> RuntimeConfig:
    """Return a configuration with graphs of 1, 2, 64 and 128 tokens."""
    config = vllm_config(folder / "model", folder, ExecutionMode.TORCH_COMPILE)
    return config.model_copy(update={"warmup": WarmupConfig(enabled=warm)})


def eager(folder: Path, pairs: int) -> tuple[list[Start], list[Comparison]]:
    """Start both servers three times, one after the other in alternating order, and run the load after each start."""
    config, starts, runs = eager_config(folder), list[Start](), list[Runs]()
    for start in range(STARTS):
        urls = dict[str, str]()
        with ExitStack() as stack:
            for name in [(THEIRS, OURS), (OURS, THEIRS)][start % 2]:
                server_of, wait_for_start = SERVERS[name]
                server = stack.enter_context(server_of(folder, config))
                starts.append(wait_for_start(name, server))
                urls[name] = server.url
            runs.append(vllm_overhead.measure(urls[OURS], urls[THEIRS], pairs))
    return starts, vllm_overhead.compare_all(runs)


def compiled(folder: Path) -> tuple[list[Start], list[Firsts], list[Firsts], int]:
    """Measure starts without compiled code, with cached code, and without warm-up, and the first requests of two."""
    kept, fresh = ({INDUCTOR: str(folder / name)} for name in ("kept", "fresh"))
    with ours(folder, compiled_config(folder), kept) as server:
        starts = [our_start(COLD, server)]
        warm = vllm_first_requests.measure(server)
        compiles = compiles_met(server)
    with ours(folder, compiled_config(folder), kept) as server:
        starts.append(our_start(KEPT, server))
    with ours(folder, compiled_config(folder, warm=False), fresh) as server:
        starts.append(our_start(UNWARMED, server))
        return starts, warm, vllm_first_requests.measure(server), compiles


def limits(starts: Sequence[Start], compiles: int) -> list[Figure]:
    """Return the other limits. The best start of each kind counts, because other load can only slow a start down."""
    rest = {name: min(each.rest for each in starts if each.name == name) for name in (OURS, THEIRS)}
    compiled_rest = min(each.rest for each in starts if each.name in (COLD, KEPT, UNWARMED))
    warmup = {each.name: each.warmup for each in starts}
    return [
        Figure("eager start without warm-up / start of vLLM's server", rest[OURS] / rest[THEIRS], "", 1.0),
        Figure("torchCompile start without warm-up / the same", compiled_rest / rest[THEIRS], "", 1.0),
        Figure("warm-up with cached code / without", warmup[KEPT] / warmup[COLD], "", 0.5),
        Figure("compilations after warm-up that delayed requests", compiles, "", 0),
    ]


def main() -> int:
    """Print the tables. Return 1 if a limit was missed."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else vllm_overhead.PAIRS
    import_client()
    console = Console(width=WIDTH)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_checkpoint(folder / "model", "llama")
        starts, comparisons = eager(folder, pairs)
        console.print(vllm_overhead.table(comparisons))
        compiled_starts, warm, cold, compiles = compiled(folder)
    starts += compiled_starts
    console.print(vllm_starts.table(starts), vllm_first_requests.table(warm, cold))
    judged = limits(starts, compiles)
    console.print(figures.table(judged), highlight=False)
    return int(any([each.missed for each in judged] + [each.missed for each in comparisons]))


if __name__ == "__main__":
    sys.exit(main())
