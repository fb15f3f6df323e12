"""Computation of plans in a separate process with limits on memory and CPU time.

planning     queues the questions, and supervises the process
plan_worker  the process
"""
