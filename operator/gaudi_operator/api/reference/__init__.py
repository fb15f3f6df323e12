"""The reference pages of the API, from the schema that the API server enforces.

pages             the pages of GaudiInference and the page of GaudiInferenceClass
tables            tables of fields
kubernetes_types  the types of Kubernetes, whose members are listed once
"""
