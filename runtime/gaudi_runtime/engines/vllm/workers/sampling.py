"""Sampling on a card: few forms of the sampler, which warm-up runs at every batch size.

vLLM chooses the operations of a step by the requests in it, and torch.compile compiles each combination at each batch
size. This module reduces the combinations to ten forms, of which plain greedy and plain random are unchanged:

- greedy, random, mixed (greedy and random requests in one step), filtered (any request with top_k or top_p) or seeded
  (any request with a seed; such a step is also filtered);
- without logprobs, or with the most logprobs that a request may ask for. vLLM shortens them for each request.

Penalties run between two parts of the sampler and have their own recipes. Their lists of tokens are padded to powers of
two.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from importlib import import_module
from itertools import product
from types import FunctionType
from typing import TYPE_CHECKING, Any

from gaudi_runtime.engines.vllm.workers.seeds import SeededRows, replace_random_sampling

if TYPE_CHECKING:
    import torch

SHORTEST_LIST = 256
MOST_PENALTY_RUNS = 64
"""The most lengths of token lists that warm-up runs, over all batch sizes. Longer lists are compiled while serving."""


class SamplerForms:
    """The forms of the sampler of one model runner, and a replacement for the sampler warm-up of the plugin."""

    def __init__(self, runner: Any, mark_step: Callable[[], None]) -> None:
        """Replace the choice of operations. `mark_step` ends a sequence of operations that share a recipe."""
        import torch

        self._runner, self._mark_step = runner, mark_step
        self._warm_up_plugin: Callable[[], None] = runner.warmup_sampler
        runner.warmup_sampler = self.warm_up
        # The flags select a form for the sampler warm-up of the plugin.
        self._mixes = self._returns_logprobs = self._penalizes = self._seeds = False
        self._list_length = SHORTEST_LIST
        batch_class = type(runner.input_batch)
        self._make_prompt_tokens: Callable[[Any], torch.Tensor] = batch_class._make_prompt_token_ids_cpu_tensor
        # The plugin's metadata has None for a filter that no request uses. Use both filters or none: the values of
        # other requests are neutral.
        batch_class.no_top_p = batch_class.no_top_k = property(lambda batch: not self._filters(batch))
        batch_class.all_greedy = property(lambda batch: not (batch.random_reqs or self._mixes))
        batch_class.all_random = property(lambda batch: not (batch.greedy_reqs or self._mixes or self._filters(batch)))
        batch_class.no_penalties = property(lambda batch: not (_penalized(batch) or self._penalizes))
        most_logprobs = runner.vllm_config.model_config.max_logprobs
        if most_logprobs > 0:
            batch_class.max_num_logprobs = property(
                lambda batch: most_logprobs if batch.num_logprobs or self._returns_logprobs else None
            )
        batch_class._make_prompt_token_ids_cpu_tensor = lambda batch: self._make_padded_prompt_tokens(batch)
        # Do not cache the tensor, because its length depends on the generated tokens.
        batch_class._get_cached_prompt_token_ids = batch_class._make_prompt_token_ids_cpu_tensor
        penalties = import_module("vllm.v1.sample.ops.penalties")
        setattr(penalties, "_convert_to_tensors", self._pad_output_tokens)  # noqa: B010 - mypy forbids assignments
        self._apply_plain = penalties.apply_all_penalties
        self._apply_penalties = torch.compiler.disable(self._apply_marked)
        setattr(import_module("vllm.v1.sample.sampler"), "apply_all_penalties", self._apply_penalties)  # noqa: B010
        # Both penalties and seeds split the graph of the sampler.
        self._samplers = {
            (False, False): runner.sampler,
            (True, False): separate_sampler(runner, "forward_with_penalties"),
            (False, True): separate_sampler(runner, "forward_with_seeds"),
            (True, True): separate_sampler(runner, "forward_with_penalties_and_seeds"),
        }
        # Drafts are checked by another sampler, which reads the generators itself.
        self._allows_seeds = runner.speculative_config is None
        replace_random_sampling(mark_step)
        self._prepare: Callable[..., Any] = runner._prepare_sampling
        runner._prepare_sampling = self._prepare_sampling

    def warm_up(self) -> None:
        """Run the plugin's sampler warm-up in each form, and penalties with longer lists."""
        forms = [(*form, False) for form in product((False, True), repeat=3)]
        if self._allows_seeds:
            # Seeds together with penalties are rare, so they are compiled while serving.
            forms += [(True, returns_logprobs, False, True) for returns_logprobs in (False, True)]
        for self._mixes, self._returns_logprobs, self._penalizes, self._seeds in forms:
            self._warm_up_plugin()
        self._mixes = self._returns_logprobs = self._penalizes = self._seeds = False
        for batch_size, length in self._longer_lists():
            self._run_penalties(batch_size, length)

    def _filters(self, batch: Any) -> bool:
        return bool(batch.top_p_reqs or batch.top_k_reqs or batch.generators or self._seeds)

    def _prepare_sampling(self, *args: Any, **kwargs: Any) -> Any:
        """Return the plugin's metadata of a step, and choose the sampler for it."""
        metadata = self._prepare(*args, **kwargs)
        if self._seeds:
            import torch

            metadata.generators = SeededRows({0: torch.Generator(device=self._runner.device)})
        elif metadata.generators and self._allows_seeds:
            metadata.generators = SeededRows(metadata.generators)
        self._runner.sampler = self._samplers[not metadata.no_penalties, isinstance(metadata.generators, SeededRows)]
        return metadata

    def _apply_marked(self, *args: Any) -> Any:
        """Apply the penalties in a recipe that depends on the batch size and the length of the lists only."""
        self._mark_step()
        logits = self._apply_plain(*args)
        self._mark_step()
        return logits

    def _longer_lists(self) -> Iterator[tuple[int, int]]:
        """Yield batch sizes and lengths of lists, shortest lists first, at most MOST_PENALTY_RUNS."""
        sizes = sorted({1, *(int(bucket[0]) for bucket in self._runner.bucketing_manager.decode_buckets)})
        longest = padded_length(int(self._runner.max_model_len)).bit_length() - 1
        lengths = [1 << exponent for exponent in range(SHORTEST_LIST.bit_length(), longest + 1)]
        yield from [(size, length) for length in lengths for size in sizes][:MOST_PENALTY_RUNS]

    def _run_penalties(self, batch_size: int, length: int) -> None:
        import torch

        batch, device = self._runner.input_batch, self._runner.device
        tokens = torch.full((batch_size, length), batch.vocab_size, dtype=torch.int64).to(device)
        logits = torch.zeros((batch_size, batch.vocab_size), dtype=torch.float32).to(device)
        self._list_length = length
        values = batch.presence_penalties[[0] * batch_size]
        self._apply_penalties(logits, tokens, values, values, values, [[0]] * batch_size)
        self._list_length = SHORTEST_LIST

    def _make_padded_prompt_tokens(self, batch: Any) -> "torch.Tensor":
        """Return the prompts of the batch, [sequences, tokens]. The lists of generated tokens get the same length."""
        import torch

        if self._penalizes:
            # In warm-up, the rows of the batch still have the tokens of dummy prompts, which may exceed the vocabulary.
            self._list_length = SHORTEST_LIST
            return torch.full((batch.num_reqs, SHORTEST_LIST), batch.vocab_size, dtype=torch.int64)
        tokens = self._make_prompt_tokens(batch)
        generated = max((len(tokens) for tokens in batch.req_output_token_ids if tokens), default=0)
        self._list_length = padded_length(max(tokens.shape[1], generated))
        missing = self._list_length - tokens.shape[1]
        return torch.nn.functional.pad(tokens, (0, missing), value=batch.vocab_size)

    def _pad_output_tokens(self, rows: Sequence[Sequence[int]], vocab_size: int, device: Any) -> "torch.Tensor":
        """Return the generated tokens, [sequences, tokens]. vLLM pads with `vocab_size`, which is no token."""
        import torch

        length = max(self._list_length, padded_length(max(map(len, rows))))  # drafts may follow the generated tokens
        tokens = torch.full((len(rows), length), vocab_size, dtype=torch.int64)
        for row, generated in enumerate(rows):
            tokens[row, : len(generated)] = torch.tensor(generated, dtype=torch.int64)
        return tokens.to(device, non_blocking=True)


def separate_sampler(runner: Any, name: str) -> Any:
    """Return a sampler for steps that split its graph. With torch.compile, its compiled code is separate.

    Dynamo chooses compiled code by its guards, and the guards of the first part of a split graph also fit plain steps,
    which would then run the split graph. `name` is the name of the separate function.
    """
    sampler = getattr(runner.sampler, "_orig_mod", None)
    if sampler is None:
        return runner.sampler
    forward = type(sampler).forward
    # Dynamo keeps compiled code by the code object of a function.
    code = forward.__code__.replace(co_name=name)
    separate = FunctionType(code, forward.__globals__, code.co_name, forward.__defaults__, forward.__closure__)
    separate_module = copy(sampler)
    separate_module.__class__ = type("SeparateSampler", (type(sampler),), {"forward": separate})
    return runner._compile(separate_module)


def padded_length(tokens: int) -> int:
    """Return the smallest power of two, at least SHORTEST_LIST, that is not less than `tokens`."""
    return max(SHORTEST_LIST, 1 << (tokens - 1).bit_length()) if tokens > 0 else SHORTEST_LIST


def _penalized(batch: Any) -> bool:
    return bool(batch.presence_penalties_reqs or batch.frequency_penalties_reqs or batch.repetition_penalties_reqs)
