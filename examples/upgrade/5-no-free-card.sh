#!/bin/sh
# No card is free for a pod beside the old ones: the upgrade says so and breaks no promise. Once a replica may be missing,
# pods are replaced in place. Takes a node with eight free cards, which local clusters have.
. "$(dirname "$0")/story.sh"

begin cards.yaml

step "Other buckets, and no card for the first pod; cards.yaml lets others mend that for 30 s"
change <<'YAML'
spec:
  bucketing:
    prompt:
      query: {min: 128, step: 128}
YAML
stops UpgradeBlocked
holds "$(condition Stalled message)" "set spec.rollout.maxUnavailable to 1 or more"
equals "ready" "$(field .status.ready)" 2/2
run kubectl get gi walkthrough -o wide

step "One replica may be missing"
change <<'YAML'
spec:
  rollout:
    maxUnavailable: 1
YAML
rolled_out
[ "$(field .status.revision.current)" != "$good" ] || wrong "No other revision runs."

look
finish
