"""Pure decisions: what was observed goes in, manifests, actions and status come out. No clock, no client."""
