"""The operator: GaudiInference resources become served models, gated on warm-up."""
