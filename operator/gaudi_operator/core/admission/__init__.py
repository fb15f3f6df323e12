"""Admission of a spec: checks whether the spec can work, before a revision is created.

See docs/how-to/troubleshoot.md, Before a pod runs.

  spec_checks        ordered checks of the spec against the installation and limits of all models
  engine_settings    the check of engine settings, and settings without effect
  attention_slicing  settings of long prompts that vLLM's plugin rejects
  speculation        settings of speculative decoding that no pod can run
  kv_cache_bounds    the maximum KV blocks and minimum memory of any model, and the check of the bucket policy
  hints              advice about a spec for its users
  limits             the limits of a class, as a table of rules
  limited_values     the values to which these rules apply, read from what the operator renders
  pod_policy         the rules for revisions and children: limits, and the node folders of the installation
"""
