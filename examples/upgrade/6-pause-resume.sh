#!/bin/sh
# A rollout is held before it begins and again in its middle; what serves goes on serving each time.
. "$(dirname "$0")/story.sh"

begin walkthrough.yaml

step "Pause first, then change: nothing starts"
run kubectl gaudi rollout pause walkthrough
change <<'YAML'
spec:
  engine:
    simulation:
      compileSeconds: "2"
YAML
kubectl wait gi/walkthrough --for=jsonpath='{.status.conditions[?(@.type=="Ready")].reason}'=RolloutPaused --timeout=60s
run kubectl gaudi rollout status walkthrough --watch=false
equals "pods of the new revision" "$(field .status.updatedReplicas)" 0
equals "ready" "$(field .status.ready)" 2/2

step "Resume, and pause again while the canary warms up: it goes on to serve, and no old pod leaves"
run kubectl gaudi rollout resume walkthrough
kubectl wait gi/walkthrough --for=jsonpath='{.status.updatedReplicas}'=1 --timeout=60s
run kubectl gaudi rollout pause walkthrough
kubectl wait gi/walkthrough --for=jsonpath='{.status.readyReplicas}'=3 --timeout=120s
run kubectl get pods -l inference.gaudi.dev/name=walkthrough -L inference.gaudi.dev/revision
equals "the reason of condition Ready" "$(condition Ready reason)" RolloutPaused
run kubectl get gi walkthrough -o wide

step "Resume to the end"
run kubectl gaudi rollout resume walkthrough
rolled_out
[ "$(field .status.revision.current)" != "$good" ] || wrong "No other revision runs."

look
finish
