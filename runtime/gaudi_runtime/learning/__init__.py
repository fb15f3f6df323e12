"""Learning of a plan from this server's traffic, and its savings (docs/how-to/plan-buckets.md, Learn from traffic).

advisor             schedules comparisons while serving, and writes their result into the report
comparison_process  the comparison in a separate process, with the lowest priority and limited resources
comparison          compares the serving plan and the learned plan on the same traffic; pure
"""
