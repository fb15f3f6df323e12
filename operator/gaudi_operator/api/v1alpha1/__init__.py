"""The API group and version `inference.gaudi.dev/v1alpha1`."""
