"""Effects: watches, requests, long-polls and the clock around the pure decisions of core."""
