"""Admission of a spec: checks whether the spec can work, before a revision is created.

See docs/reference/conditions.md, Before a pod runs.

  checks           ordered checks of the spec against the installation, the planner and limits of all models
  engine_settings  the check of engine settings, and settings without effect
  kv_cache_bounds  the maximum KV blocks and minimum memory of any model, for the checks
  estimate         the forecast for a described card and a known model
  spec_forecast    the forecast of a spec's plan: bucket counts, gaps and the estimate
  forecast_checks  the comparison of the forecast with the spec: violations and possible shortfalls
  hints            advice about a spec for its users
  plan_figures     the figures of a plan that admission checks
  revision_limits  the limits of a class on a revision: its pods, engine and replicas
  spec_limits      the limits of a class on fields of the spec outside the pods
  class_trial      the violations that a class in trial reports but does not refuse
"""
