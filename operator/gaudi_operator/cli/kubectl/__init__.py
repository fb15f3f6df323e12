"""`kubectl gaudi`: what a person does to a GaudiInference, in the words and exit codes of `kubectl rollout`."""
