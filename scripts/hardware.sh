#!/usr/bin/env bash
# Test the cards of this machine with a model, and write hardware-report.json (docs/how-to/hardware.md).
#
#   scripts/hardware.sh FOLDER_OF_THE_MODEL [--tensor-parallel N] [--max-model-len N] [--max-num-seqs N]
#
# This script needs only Docker or Podman, with Intel's container runtime. IMAGE names a runtime image. Without it, the
# script builds the target runtime-hpu of the Dockerfile.
set -euo pipefail

fail() {
  echo "$1" >&2
  exit 2
}

model=${1:-}
[ -f "$model/config.json" ] || fail "Pass the folder of a model, with config.json and safetensors: $0 FOLDER"
shift
model=$(cd "$model" && pwd)
docker=$(command -v docker || command -v podman) \
  || fail "Neither docker nor podman is on the PATH: install one, with Intel's container runtime for Gaudi."
image=${IMAGE:-localhost/gaudi-runtime-hpu:hardware}
if [ -z "${IMAGE:-}" ]; then
  echo "Building $image" >&2
  "$docker" build --target runtime-hpu --tag "$image" "$(dirname "$0")/.."
fi

# The permissions of our pods, and all cards. The driver pins memory, and vLLM's processes communicate through shared
# memory.
run() {
  "$docker" run --rm --runtime=habana --env HABANA_VISIBLE_DEVICES=all \
    --read-only --cap-drop=ALL --security-opt=no-new-privileges --user 65532:65532 \
    --ulimit memlock=-1:-1 --shm-size=16g --tmpfs /tmp:mode=1777 --tmpfs /cache:mode=1777 \
    --volume "$model:/models/$(basename "$model"):ro" "$image" "$@"
}

run doctor --engine vllm >&2 || {
  echo "The doctor above has found faults of this machine or this image. Fix them first." >&2
  exit 1
}
report=hardware-report.json
status=0
run hardware-report --model "/models/$(basename "$model")" --folder /cache --output - "$@" > "$report" || status=$?
if [ ! -s "$report" ]; then
  rm "$report"
  echo "The test wrote no report. Its output is printed above." >&2
  exit 1
fi
echo "Report: $PWD/$report" >&2
exit "$status"
