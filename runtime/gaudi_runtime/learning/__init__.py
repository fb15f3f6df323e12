"""Learning of a plan from the traffic of this server, and its savings (docs/how-to/learn-buckets.md, While serving).

advisor             while serving: when both plans are compared, and the result in the report
comparison_process  the comparison in a process of its own, with the lowest priority and bounded
comparison          the plan that serves and the learned one, judged on the same traffic; pure
"""
