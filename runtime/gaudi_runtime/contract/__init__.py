"""What the operator and the runtime agree on: pure pydantic values, no effects."""
