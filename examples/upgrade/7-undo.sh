#!/bin/sh
# Back to the revision before, by the same careful way: the spec asks for it again, and its name is the same as before.
. "$(dirname "$0")/story.sh"

begin walkthrough.yaml

step "A change that works, and is regretted"
change <<'YAML'
spec:
  bucketing:
    prompt:
      query: {min: 128, step: 128}
YAML
rolled_out
run kubectl gaudi rollout history walkthrough

step "Undo"
run kubectl gaudi rollout undo walkthrough
rolled_out
equals "the revision that runs" "$(field .status.revision.current)" "$good"
equals "spec.bucketing.prompt.query.step" "$(field .spec.bucketing.prompt.query.step)" 256

look
finish
