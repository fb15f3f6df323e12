#!/bin/sh
# An upgrade to smaller prompt buckets. The first pod is the canary. An old pod is deleted only after a new pod serves.
. "$(dirname "$0")/common.sh"

begin walkthrough.yaml

step "Prompt buckets every 128 tokens: 4 graphs instead of 2"
patch_spec <<'YAML'
spec:
  bucketing:
    prompt:
      query: {min: 128, step: 128}
YAML
expect_rollout
[ "$(field .status.revision.current)" != "$good" ] || fail "The revision did not change."
expect_equal "status.revision.stable" "$(field .status.revision.stable)" "$(field .status.revision.current)"
expect_equal "planned prompt buckets" "$(field .status.plan.promptBuckets)" 4

show_result
finish
