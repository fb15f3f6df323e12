"""Questions about plans, answered in a process of its own that is bounded in memory and time.

planning     who asks, in turns, and what has become of the process
plan_worker  that process
"""
