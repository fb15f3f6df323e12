"""The optimal strategy: the buckets that pad a known traffic least within a budget (docs/traffic.md)."""
