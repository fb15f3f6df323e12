#!/bin/sh
# No card is free for a pod in addition to the old ones: one replica at a time is replaced in place, and the other one
# serves. A spec that waits for room stops; the command of its message starts the upgrade. Takes a node with eight free
# cards, which local clusters have.
. "$(dirname "$0")/story.sh"

begin cards.yaml

step "Other buckets, and no card for the first pod; cards.yaml waits for room for 10 s"
change <<'YAML'
spec:
  bucketing:
    prompt:
      query: {step: 128}
YAML
rolled_out
[ "$(field .status.revision.current)" != "$good" ] || wrong "No other revision runs."
good="$(field .status.revision.current)"

step "Other buckets again, with a spec that waits for room"
change <<'YAML'
spec:
  rollout:
    whenNoRoom: Wait
  bucketing:
    prompt:
      query: {min: 128, step: 128}
YAML
stops UpgradeBlocked
holds "$(condition Stalled message)" "because spec.rollout.whenNoRoom is Wait"
equals "ready" "$(field .status.ready)" 2/2
run kubectl get gi walkthrough -o wide

step "The command of the message"
eval "$(condition Stalled message | sed 's/.*`\(kubectl patch .*\)`.*/\1/')"
rolled_out
[ "$(field .status.revision.current)" != "$good" ] || wrong "No other revision runs."

look
finish
