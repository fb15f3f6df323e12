"""The readiness gate of a pod. It is open only while the graphs that the pod's traffic needs are captured.

condition   how the gate is written as a pod condition, and what the condition records
thresholds  the comparison of captured graphs with spec.readiness
judgement   which gates open or close, according to the reports and to recompilations
"""
