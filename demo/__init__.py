"""`make demo`: the main job from nothing, and the pieces of it that the end-to-end tests share."""
