#!/bin/sh
# A plan whose graphs do not fit into their memory is found out by one pod, which never takes traffic, and rolled back.
. "$(dirname "$0")/story.sh"

begin walkthrough.yaml

step "Prompt buckets every 32 tokens: 16 graphs of 102 MiB together, and graphs have 80 MiB"
change <<'YAML'
spec:
  bucketing:
    prompt:
      query: {min: 32, step: 32}
YAML
rolled_back CapturedBelowThreshold "of 16 prompt graphs"
holds "$(condition Stalled message)" "was the first bucket without a graph: it needs about"

look
finish
