"""Where a checkpoint comes from when nothing mounts it: a repository of a hub, fetched before the engine loads."""
