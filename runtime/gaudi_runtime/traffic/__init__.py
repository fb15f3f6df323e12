"""What requests look like: traces, and what a server has observed (docs/how-to/traffic.md). Pure.

trace              requests out of a CSV, in order of arrival
batching           from requests to traffic: prompts, and the decode steps of a simulated server
histogram          Traffic, which is weighted shapes, and its text
serving_histogram  the shapes that a server observed, per bucket, for reports and to learn from
"""
