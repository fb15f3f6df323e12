#!/bin/sh
# An upgrade and its undo. The undo writes the previous spec, which is rolled out as usual and has the same revision name
# as before.
. "$(dirname "$0")/common.sh"

begin walkthrough.yaml

step "Upgrade to smaller buckets"
patch_spec <<'YAML'
spec:
  bucketing:
    prompt:
      query: {min: 128, step: 128}
YAML
expect_rollout
run kubectl gaudi rollout history walkthrough

step "Undo"
run kubectl gaudi rollout undo walkthrough
expect_rollout
expect_equal "the revision that runs" "$(field .status.revision.current)" "$good"
expect_equal "spec.bucketing.prompt.query.step" "$(field .spec.bucketing.prompt.query.step)" 256

show_result
finish
