"""The contract between the operator and the runtime: pure pydantic values without effects.

config     the configuration of a pod: RuntimeConfig, with bucketing, and the revisions that are kept
report     the report of a pod: WarmupReport
ports      port names, variables and paths that both sides use
"""
