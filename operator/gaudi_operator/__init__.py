"""The operator: it serves the models of GaudiInference resources, and gates pods on their warm-up."""
