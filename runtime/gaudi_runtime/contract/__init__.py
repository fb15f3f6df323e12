"""What the operator and the runtime agree on: pure pydantic values, no effects.

config     what a pod is configured with: RuntimeConfig, with bucketing; and the revisions that are kept
report     what a pod reports: WarmupReport
ports      names and paths of both
"""
