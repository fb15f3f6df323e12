"""The OpenAI-compatible API of the model port: models, completions and chat completions.

guard       limits around any application: paths, number of requests, body, key (api_key), closing mode
app         the routes: requests (allowed fields), tokenizing, generation (chunks of choices), answer (JSON or events)
errors      every refusal in OpenAI's form
"""
