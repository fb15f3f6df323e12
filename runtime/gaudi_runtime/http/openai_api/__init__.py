"""The OpenAI-compatible API of the model port: models, completions and chat completions."""
