"""The writes of a decision.

apply   gates, children and the status, which includes a refused request
events  events, published only after the writes that they report
"""
