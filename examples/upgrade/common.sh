# Functions of the scripts in this folder: they deploy a model, start a client that sends requests continuously, and check
# the result. A failed check ends the script with exit code 1. All objects are created in the current namespace of kubectl.
# The scripts source this file.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

step() {
  printf '\n== %s\n' "$1"
}

# Show a command, then run it.
run() {
  printf '\n$ %s\n' "$*"
  "$@"
}

fail() {
  printf '\nFAILED: %s\n' "$1" >&2
  exit 1
}

# expect_equal WHAT ACTUAL EXPECTED
expect_equal() {
  [ "$2" = "$3" ] || fail "$1 is '$2'. Expected '$3'."
}

# expect_contains TEXT PART
expect_contains() {
  case $1 in
    *"$2"*) ;;
    *) fail "This text does not contain '$2': $1" ;;
  esac
}

field() {
  kubectl get gi walkthrough -o jsonpath="{$1}"
}

# condition TYPE FIELD
condition() {
  field ".status.conditions[?(@.type==\"$1\")].$2"
}

# begin MANIFEST: deploy the model again, start the client, and store the name of the revision in $good.
begin() {
  step "Deploy a model and start a client that sends requests continuously"
  kubectl delete gi/walkthrough pod/walkthrough-client configmap/walkthrough-client --ignore-not-found
  kubectl wait pod -l inference.gaudi.dev/name=walkthrough --for=delete --timeout=120s
  run kubectl apply -f "$here/$1"
  run kubectl gaudi rollout status walkthrough --timeout=5m
  good=$(field .status.revision.current)
  start_client
}

# patch_spec: merge the YAML of standard input into the resource.
patch_spec() {
  patch=$(cat)
  printf "\n$ kubectl patch gi walkthrough --type merge --patch '\n%s'\n" "$patch"
  kubectl patch gi walkthrough --type merge --patch "$patch"
}

# expect_rollout: wait until the rollout is complete and the model is ready.
expect_rollout() {
  run kubectl gaudi rollout status walkthrough --timeout=5m
  expect_equal "condition Ready" "$(condition Ready status)" True
}

# expect_stalled REASON: wait until the rollout needs an action of a user for this reason. Old pods must still serve.
expect_stalled() {
  if run kubectl gaudi rollout status walkthrough --timeout=5m; then
    fail "The rollout succeeded. Expected it to stop with reason $1."
  fi
  expect_equal "the reason of condition Stalled" "$(condition Stalled reason)" "$1"
  expect_equal "condition Available" "$(condition Available status)" True
}

# expect_rollback CAUSE EVIDENCE: wait until a failed revision is rolled back. Its message must contain EVIDENCE.
expect_rollback() {
  expect_stalled RolledBack
  expect_contains "$(condition Stalled message)" "failed ($1)"
  expect_contains "$(condition Stalled message)" "$2"
  expect_equal "the revision that runs" "$(field .status.revision.current)" "$good"
  expect_equal "ready" "$(field .status.readyReplicas)" 2
}

show_result() {
  step "Result"
  run kubectl get gi walkthrough -o wide
  run kubectl gaudi rollout history walkthrough
  run kubectl get events --field-selector "involvedObject.uid=$(field .metadata.uid)" --sort-by=.eventTime \
    -o custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message
}

# The client runs demo/traffic.py in the image of the model's pods. It does not retry failed requests.
start_client() {
  image=$(kubectl get pod -l inference.gaudi.dev/name=walkthrough -o jsonpath='{.items[0].spec.containers[0].image}')
  kubectl create configmap walkthrough-client --from-file="$here/../../demo/traffic.py"
  kubectl apply -f - <<YAML
apiVersion: v1
kind: Pod
metadata:
  name: walkthrough-client
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: client
      image: $image
      command: [python3, -u, /script/traffic.py, --host, walkthrough, --model, walkthrough]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      volumeMounts: [{name: script, mountPath: /script}]
  volumes:
    - name: script
      configMap: {name: walkthrough-client}
YAML
  kubectl wait pod/walkthrough-client --for=condition=Ready --timeout=120s
  kubectl logs --follow walkthrough-client | head -n 1 > /dev/null    # wait for the first answer
}

# finish: stop the client, and fail if one of its requests failed. `kubectl logs walkthrough-client` lists all requests.
finish() {
  step "Requests of the client"
  kubectl exec walkthrough-client -- sh -c 'kill -TERM 1'
  kubectl wait pod/walkthrough-client --for=jsonpath='{.status.phase}'=Succeeded --timeout=120s
  requests=$(kubectl logs walkthrough-client | wc -l)
  failed=$(kubectl logs walkthrough-client | grep -vc '"error": ""' || true)
  printf '%d requests, %d failed\n' "$requests" "$failed"
  [ "$requests" -gt 0 ] || fail "The client sent no request."
  expect_equal "the number of failed requests" "$failed" 0
  printf '\nPASSED\n'
}
