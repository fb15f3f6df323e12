"""The writes of a decision.

writer        writes gates, children and the status, which includes a refused request
event_writer  publishes events, only after the writes that the events report
"""
