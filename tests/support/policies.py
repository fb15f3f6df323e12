"""Bucket policies that many tests share."""

from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy

EXPONENTIAL = BucketPolicy(strategy=Strategy.EXPONENTIAL)
"""The policy of the plugin's own planner, with which plans are compared."""
