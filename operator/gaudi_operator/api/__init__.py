"""The types of the Kubernetes API that we define: the single source of CRD, docs and samples."""
