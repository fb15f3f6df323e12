"""Traffic of a model server: traces of requests, and histograms of observed shapes (docs/how-to/buckets.md). Pure.

trace              the requests of a CSV file, in order of arrival
batching           Traffic of a trace: its prompts, and the decode steps of a simulated server
histogram          Traffic, which is a histogram of weighted shapes, and its text form
serving_histogram  the shapes that a server observed, per bucket, for reports and to learn from
"""
