"""Strategy `Optimal`: the buckets that pad a known traffic least within a budget (docs/internals/planning.md).

strategy  makes the buckets from traffic and a budget
optimizer the cheapest buckets within a budget, found by the price per graph at which the choice fits
fewest_graphs  the number of graphs if no budget is given; prior: the traffic if none is known
admissible_shapes  the shapes of a phase that can occur; axes: the values that may become rungs
smoothing spreads traffic over shapes of similar size
ladder    the optimal rungs of one dimension; row_search: several dimensions, cut into rows of ladders
selection the selected rungs, and the choice of the cheapest selection
exchange  improves plans with few graphs
cost      the compute of a batch, the price of a bucket, and the score of a plan
"""
