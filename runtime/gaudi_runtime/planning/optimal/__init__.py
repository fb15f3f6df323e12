"""Strategy Optimal: the buckets that pad a known traffic least within a budget (docs/internals/optimal.md).

strategy  traffic and a budget in, buckets out
optimizer the cheapest buckets within a budget, by the price per graph at which the choice fits
fewest_graphs  the number of graphs if no budget is given; prior: the traffic if none is known
admissible_shapes  the shapes of a phase that can occur; axes: the values that may become rungs
smoothing traffic spread over shapes of about the same size
ladder    one dimension, exactly: which rungs to keep; row_search: several dimensions, cut into rows of ladders
selection the kept rungs, and the choice of the cheapest ones
exchange  improvement of plans with few graphs beyond rows
cost      the compute of a batch, the price of a bucket, and the score of a plan
"""
