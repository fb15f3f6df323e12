"""The OpenAI-compatible API of the model port: models, completions and chat completions.

guard       bounds around any application: paths, places, body, key (api_key), closing mode
app         the routes: requests (what they may ask), tokenizing, generation (chunks of all choices), answer (JSON or
            events)
errors      every refusal in OpenAI's form
"""
