"""The readiness gate of a pod: open when, and only when, the graphs that its traffic needs are captured.

condition   how the gate is written as a pod condition, and what the condition records
thresholds  captured graphs of a report against spec.readiness: why a report opens no gate
judgement   which gates open, because a report meets the thresholds, or close, on positive evidence only
recompiles  which gates close while requests wait for compiles
"""
