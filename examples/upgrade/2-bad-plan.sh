#!/bin/sh
# An upgrade to a plan whose graphs do not fit into memory. Only the canary pod fails, it gets no traffic, and the revision
# is rolled back.
. "$(dirname "$0")/common.sh"

begin walkthrough.yaml

step "Prompt buckets every 32 tokens: 16 graphs need 102 MiB, but only 80 MiB are available"
patch_spec <<'YAML'
spec:
  bucketing:
    prompt:
      query: {min: 32, step: 32}
YAML
expect_rollback CapturedBelowThreshold "of 16 prompt buckets"
expect_contains "$(condition Stalled message)" "was the first bucket that was left out: this graph needs about"

show_result
finish
