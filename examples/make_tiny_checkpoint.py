"""Make a tiny but real checkpoint: deterministic weights, a trained byte-level tokenizer, a chat template; no download.

    python examples/make_tiny_checkpoint.py FOLDER --family qwen3

The weights are random, so the answers are gibberish; everything else is what a real model has.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.utils.logging import disable_progress_bar

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['content'] is not string %}{{ raise_exception('content must be text') }}{% endif %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = 512
CONTEXT = 4096
TEXT = (
    "A bucket is a padded shape: a batch size, a query length and a number of cache blocks.",
    "Every request is padded to the smallest bucket that holds it, so the server meets only shapes it knows.",
    "Before it takes traffic a server compiles each bucket and captures its graph, the largest ones first.",
    "A prompt fills the cache once; after that each step decodes one token for every running sequence.",
    "Blocks of the cache belong to one sequence at a time and go back to the pool when it ends.",
    "If the pool runs dry, the youngest sequence gives its blocks back and is computed again later.",
    "Größere Stapel sind schneller, längere Fragen brauchen mehr Speicher: 128, 256, 512 oder 1024 Zeichen.",
    "Le café est fermé, mais la file d'attente avance : 你好 世界。 こんにちは。 Привет! 🙂 🚀",
)


class Family(StrEnum):
    """Architectures that a checkpoint can be made for."""

    LLAMA = "llama"
    QWEN2 = "qwen2"
    QWEN3 = "qwen3"


ARCHITECTURES: dict[Family, tuple[type[PreTrainedConfig], type[PreTrainedModel]]] = {
    Family.LLAMA: (LlamaConfig, LlamaForCausalLM),
    Family.QWEN2: (Qwen2Config, Qwen2ForCausalLM),
    Family.QWEN3: (Qwen3Config, Qwen3ForCausalLM),
}


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer trained on TEXT: every string has tokens, characters may span several of them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
    )


def make_config(family: Family, tokenizer: PreTrainedTokenizerFast) -> PreTrainedConfig:
    """Two layers with grouped-query attention: 4 heads of 32 dimensions share 2 key/value heads."""
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": CONTEXT,
        "initializer_range": 0.15,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    return ARCHITECTURES[family][0](**settings)


def make_checkpoint(folder: Path, family: str = Family.QWEN3, seed: int = 0) -> Path:
    """Write config.json, model.safetensors (float32, about 2 MB) and the tokenizer into `folder`, and return it."""
    tokenizer = make_tokenizer()
    config = make_config(Family(family), tokenizer)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ARCHITECTURES[Family(family)][1](config)
    disable_progress_bar()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors writes 0600, which a container's own user could not read
    return folder


def main(
    folder: Annotated[Path, typer.Argument(help="Where the checkpoint goes; made when missing.")],
    family: Annotated[Family, typer.Option(help="Architecture.")] = Family.QWEN3,
    seed: Annotated[int, typer.Option(help="Seed of the weights.")] = 0,
) -> None:
    """Make a tiny checkpoint for demonstrations and tests."""
    typer.echo(f"wrote {make_checkpoint(folder, family, seed)}")


if __name__ == "__main__":
    typer.run(main)
