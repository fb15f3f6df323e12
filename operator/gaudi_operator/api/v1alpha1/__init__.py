"""inference.gaudi.dev/v1alpha1."""
