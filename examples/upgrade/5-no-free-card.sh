#!/bin/sh
# An upgrade without a free card for a surge pod. The operator replaces one replica at a time in place while the other one
# serves. With `type: Surge` the upgrade stops, and the command in its message starts it. Requires a node with eight
# free cards, as in the local cluster.
. "$(dirname "$0")/common.sh"

begin cards.yaml

step "Change the buckets. No card is free for the first pod, and cards.yaml waits 10 s for one"
patch_spec <<'YAML'
spec:
  bucketing:
    prompt:
      query: {step: 128}
YAML
expect_rollout
[ "$(field .status.revision.current)" != "$good" ] || fail "The revision did not change."
good="$(field .status.revision.current)"

step "Change the buckets with type: Surge"
patch_spec <<'YAML'
spec:
  rollout:
    type: Surge
  bucketing:
    prompt:
      query: {min: 128, step: 128}
YAML
expect_stalled UpgradeBlocked
expect_contains "$(condition Stalled message)" "because spec.rollout.type is Surge"
expect_equal "ready" "$(field .status.readyReplicas)" 2
run kubectl get gi walkthrough -o wide

step "Run the command in the message"
eval "$(condition Stalled message | sed 's/.*`\(kubectl patch .*\)`.*/\1/')"
expect_rollout
[ "$(field .status.revision.current)" != "$good" ] || fail "The revision did not change."

show_result
finish
