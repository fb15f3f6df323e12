#!/bin/sh
# Two upgrades that run out of memory: first device memory, so that a graph is not captured, and then host memory, so that
# the kernel kills the container. The conditions name the kind of memory, and both revisions are rolled back.
. "$(dirname "$0")/common.sh"

begin walkthrough.yaml

step "The card runs out of memory at the second prompt graph (simulated)"
patch_spec <<'YAML'
spec:
  engine:
    settings:
      oomAtBucket: prompt:2
YAML
expect_rollback CapturedBelowThreshold "the device ran out of memory while this graph was captured"

step "The memory limit of the container is 24 MiB, and the kernel kills the container (not simulated)"
patch_spec <<'YAML'
spec:
  engine:
    settings:
      oomAtBucket: null
  pod:
    resources:
      limits: {memory: 24Mi}
    sharedMemorySize: 1Mi
YAML
expect_rollback HostOutOfMemory "The memory limit of the container is 24Mi. Raise spec.pod.resources.limits.memory."

show_result
finish
