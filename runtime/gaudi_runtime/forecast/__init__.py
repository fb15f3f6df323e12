"""What a deployment will need before a card is paid for: memory, graphs, time; all estimates (docs/memory.md)."""
