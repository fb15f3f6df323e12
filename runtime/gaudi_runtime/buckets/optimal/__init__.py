"""The optimal strategy: the buckets that pad a known traffic least within a budget (docs/traffic.md).

space     the admissible shapes of a phase, the values that may become rungs, and traffic smoothed over them
cost      what a batch of a shape costs to compute, and what preparing a bucket takes of the budget
ladder    one dimension, exactly: which rungs to keep; rows: several dimensions, cut into rows of ladders
budget    the price per graph at which the choice fits; exchange: what few graphs gain beyond rows
strategy  traffic and a budget in, buckets out
"""
