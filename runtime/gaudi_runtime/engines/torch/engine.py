"""TorchEngine: the Engine protocol, implemented with a model runner, a serving loop and one device thread.

All device work runs in that thread, including the work of the start-up methods.
"""

import gc
from collections.abc import AsyncGenerator, Mapping, Sequence

import torch

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import (
    DeviceMemory,
    EngineLoad,
    GenerationChunk,
    Progress,
    RecipeKey,
    SamplingParams,
)
from gaudi_runtime.engines.recipe_key import disk_recipe_key
from gaudi_runtime.engines.torch.block_manager import BlockManager
from gaudi_runtime.engines.torch.runner import DeviceThread, ModelRunner
from gaudi_runtime.engines.torch.serving import ServingLoop
from gaudi_runtime.engines.torch.tokenizer import TransformersTokenizer
from gaudi_runtime.errors import PlanImpossible
from gaudi_runtime.traffic.serving_histogram import ServingHistogram, make_padder

# The cache needs one block for padding and at least one block for sequences.
LEAST_BLOCKS = 2


class TorchEngine:
    """The torch engine (docs/internals/torch-engine.md). Its methods are called in the order of the protocol."""

    tokenizer: TransformersTokenizer

    def __init__(self, config: RuntimeConfig) -> None:
        self.counters: ServingHistogram
        self._limits = config.limits
        self._config = config
        self._runner = ModelRunner(config)
        self.captures_graphs = self._runner.captures_graphs
        # All calls use the same thread, because compiled code depends on settings of its thread. Another thread would
        # compile it a second time. A separate thread also keeps the event loop free.
        self._thread = DeviceThread()
        self._blocks: BlockManager
        self._plan: BucketPlan
        self._serving: ServingLoop | None = None

    def report_fields(self) -> Mapping[str, object]:
        """Return an empty mapping, because the report has no further fields for a real model."""
        return {}

    def notes(self) -> tuple[str, ...]:
        """Return an empty tuple, because this engine has no notes."""
        return ()

    def load(self, progress: Progress) -> None:
        """Load the weights and the tokenizer. Raises a RuntimeStartError."""
        self._thread.call(lambda: self._runner.load(progress))
        self.tokenizer = TransformersTokenizer(self._runner.checkpoint.folder)

    def profile(self) -> DeviceMemory:
        """Run the largest prompt and return the memory that is left free, in bytes."""
        return self._thread.call(self._runner.profile)

    def block_bytes(self) -> int:
        """Return the bytes of one KV block in all layers."""
        return self._runner.geometry.block_bytes

    def recipe_key(self) -> RecipeKey | None:
        """Return the recipe key of the compiled code on disk; None if no code is stored on disk."""
        # Only the Gaudi bridge keeps code in files, which `disk_recipe_key` checks.
        return disk_recipe_key(self._config, f"torch {torch.__version__}", keeps_files=False)

    def allocate(self, kv_blocks: int) -> None:
        """Allocate the cache; its last block is for padding. Raises DeviceOutOfMemory or PlanImpossible."""
        if kv_blocks < LEAST_BLOCKS:
            raise PlanImpossible(
                f"The device has memory for {kv_blocks} KV blocks, but at least {LEAST_BLOCKS} are needed (one is for "
                "padding). Give the device more memory, or lower limits.blockSize."
            )
        self._thread.call(lambda: self._runner.allocate(kv_blocks))
        self._blocks = BlockManager(kv_blocks)

    def use_plan(self, plan: BucketPlan) -> None:
        """Set the buckets that batches are padded to."""
        self._plan = plan
        self.counters = self._new_histogram()

    def warm(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Compile this shape by running a forward."""
        self._thread.call(lambda: self._runner.graphs.warm(phase, bucket))

    def execute(self, phase: BucketPhase, bucket: Bucket) -> None:
        """Do nothing, because `warm` has already run the shape."""

    def capture(self, phase: BucketPhase, bucket: Bucket) -> int:
        """Capture the graph of this shape and return its size in bytes. Raises DeviceOutOfMemory."""
        return self._thread.call(lambda: self._runner.graphs.capture(phase, bucket))

    def use_warm_buckets(self, plan: BucketPlan) -> None:
        """Use only these buckets as padding targets of requests."""
        self.use_plan(plan)

    def warm_sampler(self, batch_size: int, progress: Progress) -> None:
        """Run all sampler settings for one batch size."""
        self._thread.call(lambda: self._runner.warm_sampler(batch_size, progress))

    def warm_defragmenter(self, progress: Progress) -> bool:
        """Run the block moves of every size and return True."""
        self._thread.call(lambda: self._runner.warm_defragmenter(progress))
        return True

    def memory(self) -> DeviceMemory:
        """Return the current device memory in bytes."""
        return self._thread.call(self._runner.device.memory)

    def start_serving(self) -> None:
        """Start serving with counters at zero. `generate` may be called after this method."""
        # Objects from warm-up live as long as the process. `gc.freeze()` excludes these objects from garbage
        # collections, which are then faster under load.
        gc.freeze()
        self.counters = self._new_histogram()
        self._serving = ServingLoop(
            self._runner,
            self._thread,
            self._plan,
            self._limits,
            self._blocks,
            self.tokenizer.decode,
            self.counters,
        )

    def generate(self, prompt: Sequence[int], sampling: SamplingParams) -> AsyncGenerator[GenerationChunk, None]:
        """Stream one completion. Raises ValueError if it is not admissible, RuntimeError before `start_serving`."""
        if refusal := self.why_not_admissible(len(prompt), sampling.max_tokens):
            raise ValueError(refusal)
        if self._serving is None:
            raise RuntimeError("the engine is not serving yet")
        return self._serving.stream(tuple(prompt), sampling)

    def why_not_admissible(self, prompt_tokens: int, max_tokens: int) -> str | None:
        """Return None if a request of this size can be served, otherwise the reason as a sentence."""
        tokens, longest = prompt_tokens + max_tokens, self._limits.max_model_len
        if prompt_tokens < 1 or max_tokens < 1:
            return "A prompt needs at least one token, and max_tokens must be at least 1."
        prefix = f"The prompt has {prompt_tokens} tokens and max_tokens is {max_tokens}. The sum of {tokens} exceeds"
        if tokens > longest:
            return f"{prefix} the model's maximum length of {longest} tokens. Shorten the prompt or lower max_tokens."
        capacity = self._blocks.total_count * self._limits.block_size
        if tokens > capacity:
            return f"{prefix} the {capacity} tokens that fit into the KV cache. Shorten the prompt or lower max_tokens."
        return None

    def current_load(self) -> EngineLoad:
        """Return the current numbers of sequences and KV blocks."""
        return self._serving.current_load() if self._serving else EngineLoad(0, 0, 0, 0)

    def heartbeat_seconds(self) -> float:
        """Return the seconds since the last iteration of the serving loop; 0 if the loop is idle or compiles."""
        return self._serving.heartbeat_seconds() if self._serving else 0.0

    async def close(self) -> None:
        """Stop the serving loop after its current step, and end the device thread."""
        if self._serving is not None:
            await self._serving.close()
            self._serving = None
        await self._thread.close()

    def _new_histogram(self) -> ServingHistogram:
        return ServingHistogram(make_padder(self._plan, self._limits, self._runner.is_warm))
