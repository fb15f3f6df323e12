"""A fake Gaudi card: its compiled recipes, the memory of its graphs, and its failures."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

MIB, GIB = 2**20, 2**30


class DynamoCallbacks:
    """Dynamo's registry of callbacks."""

    def __init__(self) -> None:
        self.started: list[Callable[..., None]] = []
        self.ended: list[Callable[..., None]] = []
        self.register_start_callback, self.register_end_callback = self.started.append, self.ended.append


@dataclass
class Card:
    """A fake card: free bytes, bytes of a graph per prompt token and decode batch, and operations that fail.

    `longest_graphed` is the plugin's limit of tokens. Longer prompts run without graphs.
    """

    free: int = 16 * GIB
    total: int = 96 * GIB
    per_prompt_token: int = MIB
    per_decode_graph: int = 3 * MIB
    longest_graphed: int = 8192
    lazy: bool = True
    compile_only: bool = False
    recipes: int = 0
    compile_seconds: float = 0.0
    fails_at: tuple[int, int, int] | None = None
    failure: str = "Graph compile failed: out of memory"
    graphs: set[tuple[int, int, int]] = field(default_factory=set)
    compiled: set[tuple[object, ...]] = field(default_factory=set)
    log: list[str] = field(default_factory=list)
    running: int = 0
    dynamo: Counter[str] = field(default_factory=Counter)
    dynamo_callbacks: DynamoCallbacks = field(default_factory=DynamoCallbacks)

    def trace(self) -> None:
        """Make one graph with Dynamo."""
        for callback in self.dynamo_callbacks.started:
            callback("DYNAMO")
        self.dynamo["unique_graphs"] += 1
        for callback in self.dynamo_callbacks.ended:
            callback("DYNAMO")

    def compile(self, seconds: float = 2.0) -> None:
        """Compile one recipe."""
        self.recipes += 1
        self.compile_seconds += seconds

    def run(self, *shape: object) -> None:
        """Run a forward after the check of its shape. A new shape needs a new recipe."""
        if shape not in self.compiled:
            self.compiled.add(shape)
            self.compile()

    def settle(self) -> None:
        """Wait until running work has allocated its memory."""
        self.free, self.running = self.free - self.running, 0
