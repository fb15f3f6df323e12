"""The writes of a decision.

apply   gates, children and the status, which includes a refusal if there was one
events  events, published only after the writes that they report
"""
