"""Reconciles: at most one per resource at the same time, and a limited number in total.

controller        wakes resources, and runs their reconciles
triggers          the delay between a change and the reconcile
slots             the order of reconciles if more are due than may run
worker            the state of one resource's task
reconcile         observe, decide, write gates and children, write the status
refusals          refused requests, which are retried with back-off
first_reconciles  the progress of a new leader
"""
