"""Reconciles: one at a time per resource, and a limited number at a time in total.

controller        wakes resources, and runs their reconciles
triggers          the delay between a change and the reconcile
slots             the order of reconciles when more are due than may run
worker            the state of one resource's task
reconcile         observe, decide, write gates and children, write the status
refusals          refused requests, which are retried with back-off
first_reconciles  the progress of a new leader
"""
