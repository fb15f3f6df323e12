"""`make demo`: the main workflow from nothing, and its parts that the end-to-end tests share."""
