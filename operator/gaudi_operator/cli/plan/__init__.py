"""`gaudi-plan`: what a server would prepare, before anybody pays for a card. It reads, computes and prints.

A command (app.py) takes its options (options.py), among them the document to plan for, which becomes a PlanQuestion
(question.py). The module of the command's topic answers it (buckets, forecast, diff, comparison, trace, learn): as data
and rows for programs, as tables, heat maps (heat.py, drawn by drawing.py) or a plot (plot.py) for people. figures.py
judges one plan on expected traffic, judged.py all strategies on the traffic of a trace. A forecast has a verdict
(verdict.py), which forecast_output.py writes first. output.py writes the form that is asked for.
"""
