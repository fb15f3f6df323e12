#!/bin/sh
# Finer prompt buckets are another revision: the first pod is the canary, and an old pod goes only when a new one serves.
. "$(dirname "$0")/story.sh"

begin walkthrough.yaml

step "Prompt buckets every 128 tokens: 4 graphs instead of 2"
change <<'YAML'
spec:
  bucketing:
    prompt:
      query: {min: 128, step: 128}
YAML
rolled_out
[ "$(field .status.revision.current)" != "$good" ] || wrong "No other revision runs."
equals "the last revision that was rolled out wholly" "$(field .status.revision.stable)" "$(field .status.revision.current)"
equals "planned prompt buckets" "$(field .status.plan.promptBuckets)" 4

look
finish
