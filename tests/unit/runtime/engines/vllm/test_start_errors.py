"""Failed starts of vLLM: a file records the first failure of a worker, which becomes one of our errors."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gaudi_runtime.engines.vllm.start_errors import (
    KNOWN,
    MOST_CHARACTERS,
    MOST_KEPT_CHARACTERS,
    StartFailure,
    explain_start_error,
    read_failure,
    record_errors,
)
from gaudi_runtime.errors import (
    ConfigError,
    DeviceUnavailable,
    EngineUnsupported,
    ModelNotFound,
    ModelUnreadable,
    PlanImpossible,
    RuntimeStartError,
    UnsupportedModel,
)

PYDANTIC_HEAD = "1 validation error for ModelConfig\n  Value error, "
PYDANTIC_TAIL = (
    " [type=value_error, input_value=ArgsKwargs((), {'model': ...'tokenizer': None}), input_type=ArgsKwargs]\n"
    "    For further information visit https://errors.pydantic.dev/2.14/v/value_error"
)
ARCHITECTURE = "Model architectures ['FooForCausalLM'] are not supported for now. Supported architectures: dict_keys(["
TOO_LONG = (
    "User-specified max_model_len (100000) is greater than the derived max_model_len (max_position_embeddings=4096.0 "
    "or model_max_length=None in model's config.json). To allow overriding this maximum, set the env var "
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with extreme caution. If the model "
    "uses relative position encoding (RoPE), positions exceeding derived_max_model_len lead to nan. If the model uses "
    "absolute position encoding, positions exceeding derived_max_model_len will cause a CUDA array out-of-bounds error."
)
SMALL_CACHE = (
    "To serve at least one request with the model's max seq len (4096), (2.0 GiB KV cache is needed, which is larger "
    "than the available KV cache memory (1.0 GiB). Based on the available memory, the estimated maximum model length "
    "is 2048. Try increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or "
    "decreasing `max_model_len` when initializing the engine."
)
NODE = (
    "Available memory on node 0 (1.2/4.0 GiB) on startup is less than desired CPU memory utilization "
    "(0.92, 3.68 GiB). On the CPU backend, the `--gpu-memory-utilization` flag controls the fraction of CPU memory "
    "reserved (despite its name)."
)
FEW_TOKENS = (
    "max_num_batched_tokens (16) is smaller than max_model_len (512). This effectively limits the maximum sequence "
    "length to max_num_batched_tokens and makes vLLM reject longer sequences."
)
SAID = [
    ("ValidationError", PYDANTIC_HEAD + ARCHITECTURE + "'AfmoeForCausalLM'])" + PYDANTIC_TAIL, UnsupportedModel),
    ("ValueError", "Model architecture FooModel was supported in vLLM until v0.9, and is not supported anymore.",
     UnsupportedModel),
    ("ValidationError", PYDANTIC_HEAD + "The checkpoint you are trying to load has model type `foo` but Transformers "
     "does not recognize this architecture." + PYDANTIC_TAIL, UnsupportedModel),
    ("ValidationError", PYDANTIC_HEAD + TOO_LONG + PYDANTIC_TAIL, ConfigError),
    ("ValueError", SMALL_CACHE, PlanImpossible),
    ("ValueError", "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
     "initializing the engine.", PlanImpossible),
    ("ValueError", NODE, PlanImpossible),
    ("RuntimeError", "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
     "tried to allocate 1125899906842624 bytes. Error code 12 (Cannot allocate memory)", PlanImpossible),
    ("MemoryError", "", PlanImpossible),
    ("FileNotFoundError", "[Errno 2] No such file or directory: 'git'", EngineUnsupported),
    ("RuntimeError", "[Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::2048 MB", PlanImpossible),
    ("RuntimeError", "synStatus=20 [Device already acquired] Device acquire failed.", DeviceUnavailable),
    ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB.", PlanImpossible),
    ("ValueError", "LoRA rank 64 is greater than max_lora_rank 16.", ConfigError),
    ("VLLMValidationError", "The supplied chat template (/models/no.jinja) looks like a file path, but it failed to be "
     "opened.", ConfigError),
    ("ValueError", "Couldn't instantiate the backend tokenizer from one of: \n(1) a `tokenizers` library serialization "
     "file, \n(2) a slow tokenizer instance to convert", ModelNotFound),
    ("RuntimeError", "Failed to load the tokenizer. If the tokenizer is a custom tokenizer not yet available in the "
     "HuggingFace transformers library, consider setting `trust_remote_code=True`", ModelNotFound),
    ("SafetensorError", "Error while deserializing header: incomplete metadata, file not fully covered",
     ModelUnreadable),
    ("SafetensorError", "Error while deserializing header: header too large", ModelUnreadable),
    ("JSONDecodeError", "Expecting value: line 1 column 6 (char 5)", ModelUnreadable),
    ("OSError", "It looks like the config file at '/models/config.json' is not a valid JSON file.", ModelUnreadable),
    ("RuntimeError", "Cannot find any model weights with `/models`", ModelNotFound),
    ("FileNotFoundError", "No such file or directory: '/models/model-00002-of-00003.safetensors'", ModelNotFound),
    ("ValidationError", PYDANTIC_HEAD + "Invalid repository ID or local directory specified: '/models'.\nPlease verify "
     "the following requirements:" + PYDANTIC_TAIL, ModelNotFound),
    ("HFValidationError", "Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models'.",
     ModelNotFound),
    ("ValidationError", PYDANTIC_HEAD + FEW_TOKENS + PYDANTIC_TAIL, ConfigError),
    ("ValidationError", PYDANTIC_HEAD + "Total number of attention heads (4) must be divisible by tensor parallel size "
     "(3)." + PYDANTIC_TAIL, ConfigError),
    ("ValidationError", "1 validation error for CacheConfig\ngpu_memory_utilization\n  Input should be less than or "
     "equal to 1 [type=less_than_equal, input_value=3.0, input_type=float]", ConfigError),
]  # fmt: skip
WORDS = {
    "vllm/model_executor/models/registry.py": ["are not supported for now", "failed to be inspected"],
    "vllm/config/model.py": ["than the derived max_model_len"],
    "vllm/v1/core/kv_cache_utils.py": ["No available memory", "cache is needed, which is larger than the available KV"],
    "vllm/v1/worker/cpu_worker.py": ["Available memory on node"],
    "vllm/lora/peft_helper.py": ["is greater than max_lora_rank"],
    "vllm/renderers/chat_utils.py or vllm/entrypoints/chat_utils.py": ["The supplied chat template"],
    "vllm/tokenizers/hf.py": ["Failed to load the tokenizer"],
    "vllm/model_executor/model_loader/default_loader.py": ["Cannot find any model weights"],
    "vllm/transformers_utils/config.py": ["Invalid repository ID or local directory"],
    "transformers/models/auto/configuration_auto.py": ["does not recognize this architecture", "Unrecognized model in"],
    "transformers/tokenization_utils_tokenizers.py": ["Couldn't instantiate the backend tokenizer"],
    "transformers/tokenization_utils_base.py": ["Can't load tokenizer"],
    "transformers/utils/hub.py": ["does not appear to have a file", "not a local folder"],
    "huggingface_hub/utils/_validators.py": ["Repo id must be"],
}


def error_of(kind: str, message: str) -> RuntimeStartError:
    """Return our error for a failure that a worker has recorded in the file."""
    return explain_start_error(RuntimeError("Engine core initialization failed. See root cause above."),
                           StartFailure(step="the model was loaded", kind=kind, message=message))  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "expected"), SAID, ids=[message[:40] for _, message, _ in SAID])
def test_message_of_vllm_is_mapped_to_our_error(kind: str, message: str, expected: type[RuntimeStartError]) -> None:
    assert type(error_of(kind, message)) is expected


def test_every_row_provides_advice_for_a_message() -> None:
    """Each row of KNOWN has the advice for at least one message of vLLM."""
    given = [str(error_of(kind, message)) for kind, message, _ in SAID]
    assert [row.advice for row in KNOWN if not any(row.advice in each for each in given)] == []


@pytest.mark.parametrize("files", WORDS)
def test_messages_exist_in_the_installed_release(files: str) -> None:
    """A release has each message in at least one of several files, because messages have moved between files."""
    package = find_spec(files.partition("/")[0])
    assert package is not None
    assert package.origin is not None
    paths = [Path(package.origin).parent.parent / file for file in files.split(" or ")]
    source = "".join(path.read_text(encoding="utf-8") for path in paths if path.is_file()).replace('"\n', "")
    joined = " ".join(source.replace(' f"', "").replace('"', "").split())
    assert [words for words in WORDS[files] if words not in joined] == []


def test_error_names_the_step_and_the_remedy() -> None:
    assert str(error_of("SafetensorError", "Error while deserializing header: header too large")) == (
        "vLLM cannot start (error while the model was loaded): SafetensorError: Error while deserializing header: "
        "header too large (a weight file is damaged: download the checkpoint again)."
    )


def test_out_of_memory_is_reported_with_known_figures() -> None:
    failure = StartFailure(
        step="the model was loaded",
        kind="RuntimeError",
        message="[Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::2048 MB",
    )
    error = explain_start_error(RuntimeError("failed"), failure, lambda: "the weight files have 140 GiB for 1 rank")
    assert type(error) is PlanImpossible
    assert str(error) == (
        "vLLM cannot start (error while the model was loaded): RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM "
        "Allocation failed for size::2048 MB (the weight files have 140 GiB for 1 rank: use more cards, a smaller "
        "model or weights with fewer bits)."
    )


def test_memory_figures_are_reported_only_for_out_of_memory() -> None:
    assert "140 GiB" not in str(explain_start_error(ValueError(SAID[0][1]), None, lambda: "140 GiB"))


def test_arguments_and_lists_of_validation_errors_are_removed() -> None:
    assert str(explain_start_error(ValueError(SAID[0][1]), None)) == (
        "vLLM cannot start: ValueError: Model architectures ['FooForCausalLM'] are not supported for now (vLLM does "
        "not support this architecture: choose another model or another release of vLLM)."
    )


def test_unknown_message_is_reported_verbatim() -> None:
    error = explain_start_error(RuntimeError("Engine core initialization failed. See root cause above."), None)
    assert error.reason == "StartFailed"
    assert str(error) == (
        "vLLM cannot start: RuntimeError: Engine core initialization failed. See root cause above. "
        "The log has the details."
    )


def test_error_of_the_runtime_is_unchanged() -> None:
    ours = ConfigError("engine.settings: wrong.")
    assert explain_start_error(ours, StartFailure(step="", kind="MemoryError", message="")) is ours


def test_very_long_message_is_cut() -> None:
    assert len(str(error_of("RuntimeError", "x" * 100_000))) < MOST_CHARACTERS + 200


RANK = """
import sys
from gaudi_runtime.engines.vllm.start_errors import record_errors
sys.stdin.readline()
with record_errors(sys.argv[1], "the model was loaded"):
    raise ValueError(sys.argv[2])
"""


def record_failure(file: Path, step: str, error: BaseException) -> None:
    with pytest.raises(type(error)), record_errors(str(file), step):
        raise error


def test_no_file_is_written_without_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "failure.json"
    with record_errors(str(file), "the device was opened"):
        pass
    assert read_failure(file) is None


def test_step_kind_and_message_are_kept_and_error_propagates(tmp_path: Path) -> None:
    record_failure(tmp_path / "failure.json", "memory was measured", MemoryError("no room"))
    failure = read_failure(tmp_path / "failure.json")
    assert failure is not None
    assert (failure.step, failure.kind, failure.message) == ("memory was measured", "MemoryError", "no room")


def test_first_recorded_failure_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "failure.json"
    record_failure(file, "the device was opened", ValueError("first"))
    record_failure(file, "the model was loaded", ValueError("second"))
    failure = read_failure(file)
    assert failure is not None
    assert failure.message == "first"


def test_exit_of_a_worker_is_recorded(tmp_path: Path) -> None:
    record_failure(tmp_path / "failure.json", "the model was loaded", SystemExit("stop"))
    assert read_failure(tmp_path / "failure.json") is not None


def test_long_recorded_message_is_cut(tmp_path: Path) -> None:
    record_failure(tmp_path / "failure.json", "the model was loaded", ValueError("x" * 100_000))
    failure = read_failure(tmp_path / "failure.json")
    assert failure is not None
    assert len(failure.message) == MOST_KEPT_CHARACTERS


def test_concurrent_failures_keep_exactly_one_complete_record(tmp_path: Path) -> None:
    """The ranks are real processes, which are released at the same time."""
    file = tmp_path / "failure.json"
    command = [sys.executable, "-c", RANK, str(file)]
    ranks = [
        subprocess.Popen([*command, f"rank {rank}"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for rank in range(3)
    ]
    for each in ranks:
        each.communicate(b"\n")
    failure = read_failure(file)
    assert failure is not None
    assert failure.message in {f"rank {rank}" for rank in range(3)}
    assert list(tmp_path.iterdir()) == [file]
