"""ModelShape: the dimensions of a decoder-only model that memory depends on.

See docs/internals/warmup.md, Shapes.
"""

from dataclasses import dataclass

from gaudi_runtime.contract.config import QuantizationMethod


@dataclass(frozen=True)
class LayerShape:
    """One decoder layer: its cache, and the widths of its steps and matrices in numbers per token.

    The cache has `cache_width` numbers per token for each of `kv_heads` heads; no head if the layer has no cache of
    its own. A recurrent layer has `state_bytes` per sequence instead. `attention` is the width of the widest step of
    the attention. Its matrices together have `attention_matrices` times the hidden size parameters. A feed-forward
    network has as many matrix columns as its steps are wide: `feed_forward` of the matrices that every token uses,
    `experts` of all routed experts, and `active` of the experts that one token uses. `windowed` layers look back a
    limited number of tokens.
    """

    heads: int
    kv_heads: int
    cache_width: int
    attention: int
    attention_matrices: int
    feed_forward: int
    experts: int = 0
    active: int = 0
    state_bytes: int = 0
    windowed: bool = False

    @property
    def shared_matrices(self) -> int:
        """The width of all matrices except the routed experts."""
        return self.attention_matrices + self.feed_forward


@dataclass(frozen=True)
class ModelShape:
    """A decoder-only model. `dtype_bytes` is the bytes of a number in the checkpoint's unquantized tensors.

    `file_bytes` is the size of the weight files, or None if it is unknown. It is an estimate by the number of
    parameters if `is_listed` is False. `quantization` is the method of the checkpoint. `max_length` is the most tokens
    of a sequence, if the checkpoint states it.
    """

    family: str
    hidden: int
    layers: tuple[LayerShape, ...]
    vocab: int
    tied_embeddings: bool
    dtype_bytes: int = 2
    quantization: QuantizationMethod | None = None
    file_bytes: int | None = None
    is_listed: bool = True
    max_length: int | None = None
    takes_images: bool = False
    name: str | None = None
    """The repository that the shape was found by; None when it was read from a checkpoint."""

    @property
    def embedding_matrices(self) -> int:
        """The number of matrices outside the layers: the embeddings, and the output head if it is not tied."""
        return 1 if self.tied_embeddings else 2

    @property
    def parameters(self) -> int:
        """The estimated parameters of the decoder, within 3 % for the models of the catalog that take only text."""
        matrices = sum(layer.shared_matrices + layer.experts for layer in self.layers)
        return self.hidden * (matrices + self.embedding_matrices * self.vocab)
