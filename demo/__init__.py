"""`make demo`: the main workflow from nothing, with parts that the end-to-end tests share."""
