"""Every knob of the engine: a table as data, its checks, and what an engine is started with (docs/knobs.md)."""
