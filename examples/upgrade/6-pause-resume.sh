#!/bin/sh
# A rollout that is paused before it begins, and paused again while the canary warms up. The old pods serve throughout.
. "$(dirname "$0")/common.sh"

begin walkthrough.yaml

step "Pause, then change the spec: no pod starts"
run kubectl gaudi rollout pause walkthrough
patch_spec <<'YAML'
spec:
  engine:
    settings:
      compileSeconds: "2"
YAML
kubectl wait gi/walkthrough --for=jsonpath='{.status.conditions[?(@.type=="Ready")].reason}'=RolloutPaused --timeout=60s
run kubectl gaudi rollout status walkthrough --watch=false
expect_equal "pods of the new revision" "$(field .status.updatedReplicas)" 0
expect_equal "ready" "$(field .status.readyReplicas)" 2

step "Resume, and pause again while the canary warms up: it becomes ready, and no old pod is deleted"
run kubectl gaudi rollout resume walkthrough
kubectl wait gi/walkthrough --for=jsonpath='{.status.updatedReplicas}'=1 --timeout=60s
run kubectl gaudi rollout pause walkthrough
kubectl wait gi/walkthrough --for=jsonpath='{.status.readyReplicas}'=3 --timeout=120s
run kubectl get pods -l inference.gaudi.dev/name=walkthrough -L inference.gaudi.dev/revision
expect_equal "the reason of condition Ready" "$(condition Ready reason)" RolloutPaused
run kubectl get gi walkthrough -o wide

step "Resume until the rollout is complete"
run kubectl gaudi rollout resume walkthrough
expect_rollout
[ "$(field .status.revision.current)" != "$good" ] || fail "The revision did not change."

show_result
finish
