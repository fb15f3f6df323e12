"""The runtime of a pod: plans buckets, warms them up, captures graphs, then serves the model."""
