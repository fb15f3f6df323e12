"""`gaudi-plan`: plans and forecasts of a deployment without a card. The tool changes nothing in a cluster.

app.py defines the commands, and options.py their options. document.py converts the given document to a PlanDocument.
For each topic, a module (buckets, forecast, comparison, learn) computes the output: data and rows for programs, and
tables or a plot (plot.py) for people. output.py writes the requested format. figures.py judges one plan on expected
traffic. verdict.py computes the verdict of a forecast, which forecast_output.py prints first.
"""
