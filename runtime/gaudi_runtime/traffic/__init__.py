"""Traffic of a model server: histograms of observed shapes (docs/how-to/plan-buckets.md). Pure.

histogram          Traffic, which is a histogram of weighted shapes, and its text form
serving_histogram  the shapes that a server observed, per bucket, for reports and for learning
"""
