"""Tiny checkpoints with a vision tower and a real processor, images, and prompts with images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.make_tiny_checkpoint import CONTEXT, make_tokenizer
from tests.plugin.engine import Run

GEMMA, QWEN = "gemma3", "qwen2_5_vl"
TEXT = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.15,
    "tie_word_embeddings": False,
    "bos_token_id": None,
}


PLACE = {GEMMA: "<start_of_image>", QWEN: "<|vision_start|><|image_pad|><|vision_end|>"}
"""The placeholder of an image in a prompt."""


def picture(width: int, height: int, seed: int) -> Any:
    """Return an image of 16 squares with random colors."""
    import numpy
    from PIL import Image

    small = numpy.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=numpy.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.NEAREST)


Size = tuple[int, int]


def answer_images(run: Run, family: str, sizes: Sequence[Size], tokens: int) -> tuple[list[int], list[int]]:
    """Answer a prompt that contains an image of each size. Return the tokens of the prompt and of the answer."""
    from vllm.sampling_params import SamplingParams

    images = [picture(*size, seed) for seed, size in enumerate(sizes)]
    asked = {"prompt": PLACE[family] * len(sizes) + "What is a bucket?", "multi_modal_data": {"image": images}}
    sampling = SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True)
    run.llm.add_request(f"{family} {sizes}", asked, sampling)
    found: tuple[list[int], list[int]] | None = None
    while run.llm.has_unfinished_requests():
        for output in run.llm.step():
            if output.finished:
                found = list(output.prompt_token_ids), list(output.outputs[0].token_ids)
    assert found
    return found


def largest_logit_gap(checkpoint: Path, asked: Sequence[tuple[Sequence[Size], Sequence[int], Sequence[int]]]) -> float:
    """Return the largest difference in logits between the best token and the chosen token.

    transformers computes the logits in bfloat16. `asked` contains the sizes of the images, the tokens of the prompt and
    the tokens of the answer.
    """
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model: Any = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.bfloat16)
    images: Any = AutoProcessor.from_pretrained(checkpoint).image_processor
    worst = 0.0
    for sizes, prompt, answer in asked:
        seen = images([picture(*size, seed) for seed, size in enumerate(sizes)], return_tensors="pt")
        seen = {name: each for name, each in seen.items() if name in ("pixel_values", "image_grid_thw")}
        ids = torch.tensor([[*prompt, *answer]])
        if "image_grid_thw" in seen:
            seen["mm_token_type_ids"] = (ids == model.config.image_token_id).int()
        with torch.no_grad():
            logits = model(ids, **seen).logits[0, len(prompt) - 1 : -1].float()
        chosen = logits[torch.arange(len(answer)), torch.tensor(answer)]
        worst = max(worst, float((logits.max(dim=-1).values - chosen).max()))
    return worst


def make_vision_checkpoint(folder: Path, family: str) -> Path:
    """Write a checkpoint of the model family `family` into `folder`."""
    import torch
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, processor = (_gemma if family == GEMMA else _qwen)()
    model.save_pretrained(folder)
    if family == GEMMA:
        _name_as_published(folder / "model.safetensors")
    processor.save_pretrained(folder)
    return folder


def _name_as_published(file: Path) -> None:
    """Rename the weights of the vision tower as in published models.

    Current transformers omits a part of these names.
    """
    from safetensors.torch import load_file, save_file

    tower = "vision_tower."
    named = {name.replace(tower, f"{tower}vision_model."): each for name, each in load_file(file).items()}
    save_file(named, file, metadata={"format": "pt"})


def _tokenizer(**special: str) -> Any:
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(["\n" * times for times in range(1, 5)])  # vLLM looks for these tokens in Gemma's vocabulary.
    return type(tokenizer)(
        tokenizer_object=tokenizer.backend_tokenizer,
        eos_token=tokenizer.eos_token,
        pad_token=tokenizer.pad_token,
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
        extra_special_tokens=special,
    )


def _gemma() -> tuple[Any, Any]:
    """Return a Gemma 3 model. All images are scaled to 56 pixels, so each image has 16 patches and 4 tokens."""
    import torch
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3Processor
    from transformers.models.gemma3 import Gemma3ImageProcessor

    tokenizer = _tokenizer(boi_token="<start_of_image>", eoi_token="<end_of_image>", image_token="<image_soft_token>")
    config = Gemma3Config(
        text_config={
            **TEXT,
            "vocab_size": 1024,
            "head_dim": 32,
            "sliding_window": 1024,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "query_pre_attn_scalar": 32,
        },
        vision_config={
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 56,
            "patch_size": 14,
        },
        mm_tokens_per_image=4,
        boi_token_index=tokenizer.boi_token_id,
        eoi_token_index=tokenizer.eoi_token_id,
        image_token_index=tokenizer.image_token_id,
        initializer_range=0.15,
        tie_word_embeddings=False,
    )
    processor = Gemma3Processor(
        image_processor=Gemma3ImageProcessor(size={"height": 56, "width": 56}),
        tokenizer=tokenizer,
        image_seq_length=4,
    )
    model: Any = Gemma3ForConditionalGeneration(config)
    with torch.no_grad():
        # Use random weights, because the projection is initialized with zeros. With zeros, all images would have the
        # same embedding.
        model.model.multi_modal_projector.mm_input_projection_weight.normal_(std=0.15)
    return model, processor


def _qwen() -> tuple[Any, Any]:
    """Return a Qwen 2.5 VL model.

    An image has one patch for each square of 14 pixels, and one token for each group of four patches.
    """
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
    )
    from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor

    tokenizer = _tokenizer(
        image_token="<|image_pad|>",
        video_token="<|video_pad|>",
        vision_start="<|vision_start|>",
        vision_end="<|vision_end|>",
    )
    ids = {
        name: tokenizer.convert_tokens_to_ids(f"<|{name}|>")
        for name in ("image_pad", "video_pad", "vision_start", "vision_end")
    }
    config = Qwen2_5_VLConfig(
        text_config={
            **TEXT,
            "vocab_size": 1024,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]},
        },
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 2,
            "out_hidden_size": TEXT["hidden_size"],
            "fullatt_block_indexes": [1],
            "window_size": 56,
        },
        image_token_id=ids["image_pad"],
        video_token_id=ids["video_pad"],
        vision_start_token_id=ids["vision_start"],
        vision_end_token_id=ids["vision_end"],
        tie_word_embeddings=False,
    )
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(min_pixels=112 * 112, max_pixels=448 * 448),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
    )
    return Qwen2_5_VLForConditionalGeneration(config), processor
