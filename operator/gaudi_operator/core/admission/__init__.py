"""Whether a spec can work, judged by values alone before a revision is made.

See docs/reference/conditions.md, Before a pod runs.

checks    ordered checks of what the installation, the planner or any model forbids; the first violation counts
bounds    the most KV blocks and the least memory of any model: what the checks compare with
estimate  a described card and a known model, forecast
review    what is known of the plan: its forecast, what the estimate refuses or doubts, hints
plans     the figures of a spec's plan on which admission decides
"""
