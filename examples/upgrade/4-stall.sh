#!/bin/sh
# A compile that never ends is noticed by what does not move, not by a deadline for the whole start, and rolled back.
. "$(dirname "$0")/story.sh"

begin walkthrough.yaml

step "The second prompt bucket never compiles (simulated); stallTimeoutSeconds is 15"
change <<'YAML'
spec:
  engine:
    simulation:
      stallAtBucket: prompt:2
YAML
rolled_back WarmupStalled "in phase Compiling at prompt bucket (1, 256, 0)"

look
finish
