"""Admission of a spec: whether it can work, judged from values before a revision is created.

See docs/reference/conditions.md, Before a pod runs.

  checks    ordered checks of what the installation, the planner or every model forbids; the first violation counts
  bounds    the maximum KV blocks and minimum memory of any model, which the checks compare with
  estimate  the forecast for a described card and a known model
  review    the forecast of a plan: violations and doubts of the estimate, and hints
  plans     the figures of a plan that admission checks
"""
