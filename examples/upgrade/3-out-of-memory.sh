#!/bin/sh
# Two kinds of memory run out: first that of the card, which leaves a graph out, then that of the node, which kills the
# container. Each is told apart, and rolled back.
. "$(dirname "$0")/story.sh"

begin walkthrough.yaml

step "The card runs out of memory at the second prompt graph (simulated)"
change <<'YAML'
spec:
  engine:
    simulation:
      oomAtBucket: prompt:2
YAML
rolled_back CapturedBelowThreshold "the device ran out of memory while its graph was captured"

step "The container may use 24 MiB of the node's memory, and the kernel ends it (not simulated)"
change <<'YAML'
spec:
  engine:
    simulation:
      oomAtBucket: null
  pod:
    resources:
      limits: {memory: 24Mi}
    sharedMemorySize: 1Mi
YAML
rolled_back HostOutOfMemory "Its memory limit is 24Mi: raise spec.pod.resources.limits.memory."

look
finish
