"""Admission of a spec: checks whether the spec can work, before a revision is created.

See docs/how-to/troubleshoot.md, Before a pod runs.

  spec_checks      ordered checks of the spec against the installation and limits of all models
  engine_settings  the checks of engine settings, and hints about them
  limited_values   the values to which the limits of a class apply, read from what the operator renders
  pod_policy       the rules for revisions and children: limits, and the node folders of the installation
"""
