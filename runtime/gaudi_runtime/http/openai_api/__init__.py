"""The guard of the model port, in front of the OpenAI application of an engine.

guard       limits for the application: key (api_key), paths, number of requests (admission), body, closing mode
errors      all errors in OpenAI's form
"""
