"""The runtime that a pod runs: plan buckets, warm up, capture graphs, then serve."""
