"""Strategy `Optimal`: the buckets that pad a known traffic least within a budget (docs/internals/optimal.md).

strategy  makes the buckets from traffic and a budget
optimizer the buckets that pad least within a budget
fewest_graphs  the number of graphs if no budget is given; prior: the traffic if none is known
search    adds, removes and exchanges buckets
admissible_shapes  the shapes of a phase that can occur; axes: the values that candidates may have
smoothing spreads traffic over shapes of similar size
cost      the compute of a batch, the price of a bucket, and the score of a plan
"""
