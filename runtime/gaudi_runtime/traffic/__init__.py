"""Traffic of a model server: traces and histograms of observed shapes (docs/how-to/learn-buckets.md). Pure.

trace              the requests of a CSV file, in order of arrival
batching           Traffic of a trace: its prompts, and the decode steps of a simulated server
histogram          Traffic, which is a histogram of weighted shapes, and its text form
serving_histogram  the shapes that a server observed, per bucket, for reports and for learning
"""
