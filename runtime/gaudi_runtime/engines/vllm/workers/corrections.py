"""Corrections of the plugin's model runner in steps that vllm-gaudi 0.26 answers wrongly, not at all, or late.

A correction changes only a state that shows the defect, so it does nothing with a plugin without the defect
(docs/internals/vllm.md, Corrections).
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from gaudi_runtime.engines.vllm.workers.capabilities import CORRECTED, CORRECTED_BATCH, find_degradations
from gaudi_runtime.engines.vllm.workers.sliding_windows import correct_sliding_windows


def correct_preempted_prompts(runner: Any) -> None:
    """Make the plugin count the generated tokens of a preempted request as a part of its prompt.

    The plugin does this only if the request resumes without cached blocks. Otherwise the prompt would have a row of
    logits for each generated token, and the request would get the token of a wrong row.
    """
    batch_class = type(runner.input_batch)
    add = batch_class.add_request

    def add_request(batch: Any, request: Any, req_index: int | None = None) -> Any:
        index = add(batch, request, req_index)
        prompt, total = len(request.prompt_token_ids), request.num_tokens
        # One token less is a request that only decodes, because its last token is not computed yet.
        if batch.num_prompt_tokens[index] == prompt and request.num_computed_tokens < total - 1:
            batch.num_prompt_tokens[index] = total
        return index

    batch_class.add_request = add_request


def correct_penalized_tokens(runner: Any) -> None:
    """Add the token of the previous step to the tokens that penalties use.

    With asynchronous scheduling, the plugin leaves sampled tokens on the card and never adds them.
    """
    prepare = runner._prepare_sampling

    def prepare_sampling(*args: Any, **kwargs: Any) -> Any:
        if not runner.input_batch.no_penalties:
            _add_previous_tokens(runner)
        return prepare(*args, **kwargs)

    runner._prepare_sampling = prepare_sampling


def _add_previous_tokens(runner: Any) -> None:
    batch = runner.input_batch
    tokens, rows = batch.prev_sampled_token_ids, batch.prev_req_id_to_index or {}
    penalized = batch.presence_penalties_reqs | batch.frequency_penalties_reqs | batch.repetition_penalties_reqs
    for request_id in penalized & rows.keys() if tokens is not None else ():
        state = runner.requests[request_id]
        # The token at this position is the input of the running step, so the previous step has sampled it.
        if state.num_tokens == batch.num_computed_tokens_cpu[batch.req_id_to_index[request_id]]:
            state.output_token_ids.append(int(tokens[rows[request_id]]))


def correct_guided_rows(runner: Any) -> None:
    """Give the sampler the requests of a step with a grammar in the order of the rows of their logits.

    The rows of decodes come first, but the plugin passes the prompts first, so rows would get parameters of other
    requests.
    """
    prepare = runner._prepare_sampling

    def prepare_sampling(batch_changed: bool, request_ids: Sequence[str] | None = None, *args: Any) -> Any:
        if runner.use_structured_output and request_ids is not None:
            request_ids = sorted(request_ids, key=runner.input_batch.req_id_to_index.__getitem__)
        return prepare(batch_changed, request_ids, *args)

    runner._prepare_sampling = prepare_sampling


def correct_long_gpt_oss_prompts(_runner: Any) -> None:
    """Keep all tokens of a prompt of gpt-oss that has more tokens than the hidden size (2,880 for both models).

    vLLM's layer cuts the second dimension of the experts' output to the hidden size. On a card this dimension is the
    tokens of a prompt, so longer prompts would fail.
    """
    if (module := sys.modules.get("vllm.model_executor.models.gpt_oss")) is None:
        return  # another model
    forward = module.MLPBlock.forward

    def forward_by_tokens(layer: Any, hidden_states: Any) -> Any:
        return forward(layer, hidden_states.reshape(-1, hidden_states.shape[-1])).reshape(hidden_states.shape)

    module.MLPBlock.forward = forward_by_tokens


def correct_rotary_state(runner: Any) -> None:
    """Remove what the previous forward left in the rotary embeddings, so that it does not choose the compiled code.

    The plugin does this for one embedding. A model with sliding windows has a second one. Dynamo would compile code for
    a shape that depends on the previous shape too, so a warm shape could be compiled again.
    """
    modules: Any = getattr(runner.get_model(), "modules", tuple)()
    embeddings = [module for module in modules if hasattr(module, "prepare_cos_sin")]
    execute = runner._execute_model_generic

    def execute_without_state(*args: Any, **kwargs: Any) -> Any:
        for embedding in embeddings:
            for name in ("cos", "sin"):
                embedding._buffers.pop(name, None)
        return execute(*args, **kwargs)

    runner._execute_model_generic = execute_without_state


CORRECTIONS: tuple[Callable[[Any], None], ...] = (
    correct_preempted_prompts,
    correct_penalized_tokens,
    correct_guided_rows,
    correct_long_gpt_oss_prompts,
    correct_rotary_state,
    correct_sliding_windows,
)
"""The corrections in use. To switch one off, remove it here."""


def correct_plugin(runner: Any) -> None:
    """Apply all corrections, unless the plugin lacks names that they use."""
    if find_degradations(runner, CORRECTED) or find_degradations(runner.input_batch, CORRECTED_BATCH):
        return
    for correct in CORRECTIONS:
        correct(runner)
