#!/bin/sh
# An upgrade in which a compile never ends. The operator detects that warm-up makes no progress (stallTimeoutSeconds), and
# rolls the revision back.
. "$(dirname "$0")/common.sh"

begin walkthrough.yaml

step "The second prompt bucket never compiles (simulated); stallTimeoutSeconds is 15"
patch_spec <<'YAML'
spec:
  engine:
    settings:
      stallAtBucket: prompt:2
YAML
expect_rollback WarmupStalled "in phase Compiling at prompt bucket (1, 256, 0)"

show_result
finish
