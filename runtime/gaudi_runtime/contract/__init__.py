"""The contract between the operator and the runtime: pure pydantic values without side effects.

config     the configuration of a pod: RuntimeConfig, with bucketing, and the kept revisions
report     the report of a pod: WarmupReport
failures   the reasons of failed starts that may pass
ports      the port names, variables and paths that operator and runtime use
"""
