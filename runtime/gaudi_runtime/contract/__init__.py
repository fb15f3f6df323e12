"""The contract between the operator and the runtime: pure pydantic values without effects.

config     what a pod is configured with: RuntimeConfig, with bucketing; and the revisions that are kept
report     what a pod reports: WarmupReport
ports      names and paths of both
"""
