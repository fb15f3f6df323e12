"""`gaudi-plan`: plans and forecasts of a deployment without a card. It reads, computes and prints.

A command (app.py) takes its options (options.py), including the document to plan for, which becomes a PlanDocument
(question.py). The module of the topic (buckets, forecast, diff, comparison, trace, learn) computes the output: data and
rows for programs, and tables, heat maps (heat.py, drawn by drawing.py) or a plot (plot.py) for people. output.py writes
the requested format. figures.py judges one plan on expected traffic. strategy_scores.py judges all strategies on the
traffic of a trace. A forecast has a verdict (verdict.py), which forecast_output.py prints first.
"""
