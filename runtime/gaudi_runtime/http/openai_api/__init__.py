"""The OpenAI-compatible API of the model port: models, completions and chat completions.

guard       limits for any application: key (api_key), paths, number of requests (admission), body, closing mode
app         the routes: requests (allowed fields), tokenizing, generation (chunks of choices), answer (JSON or events)
errors      all errors in OpenAI's form
"""
