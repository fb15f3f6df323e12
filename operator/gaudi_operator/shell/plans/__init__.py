"""Plan questions, answered in a separate process with limits of memory and time.

planning     queues the questions, and supervises the process
plan_worker  the process
"""
