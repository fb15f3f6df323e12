# What the scripts of this folder share: a deployment of their own, a client that asks it without a pause, and checks that
# end a script with exit code 1. Sourced, not run. Everything happens in the namespace of kubectl's current context.
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

wrong() {
  printf '\nNOT AS PROMISED: %s\n' "$1" >&2
  exit 1
}

# equals WHAT IS DESIRED
equals() {
  [ "$2" = "$3" ] || wrong "$1 is '$2' and should be '$3'."
}

# holds TEXT PIECE
holds() {
  case $1 in
    *"$2"*) ;;
    *) wrong "'$2' is missing in: $1" ;;
  esac
}

field() {
  kubectl get gi walkthrough -o jsonpath="{$1}"
}

# condition TYPE FIELD
condition() {
  field ".status.conditions[?(@.type==\"$1\")].$2"
}

# begin MANIFEST: deploy it again and keep the name of its revision in $good.
begin() {
  step "A deployment that serves, and a client that asks it without a pause"
  kubectl delete gi/walkthrough pod/walkthrough-client configmap/walkthrough-client --ignore-not-found
  kubectl wait pod -l inference.gaudi.dev/name=walkthrough --for=delete --timeout=120s
  run kubectl apply -f "$here/$1"
  run kubectl gaudi rollout status walkthrough --timeout=5m
  good=$(field .status.revision.current)
  start_client
}

# change: merge the YAML of standard input into the resource.
change() {
  patch=$(cat)
  printf "\n$ kubectl patch gi walkthrough --type merge --patch '\n%s'\n" "$patch"
  kubectl patch gi walkthrough --type merge --patch "$patch"
}

# rolled_out: wait until the rollout is over, and well.
rolled_out() {
  run kubectl gaudi rollout status walkthrough --timeout=5m
  equals "condition Ready" "$(condition Ready status)" True
}

# stops REASON: wait until the rollout asks for a person, for this reason; old pods serve meanwhile.
stops() {
  if run kubectl gaudi rollout status walkthrough --timeout=5m; then
    wrong "The rollout succeeded and should have stopped ($1)."
  fi
  equals "the reason of condition Stalled" "$(condition Stalled reason)" "$1"
  equals "condition Available" "$(condition Available status)" True
}

# rolled_back CAUSE EVIDENCE: wait until a failed revision has made way for the good one; EVIDENCE stands in the message.
rolled_back() {
  stops RolledBack
  holds "$(condition Stalled message)" "failed ($1)"
  holds "$(condition Stalled message)" "$2"
  equals "the revision that runs" "$(field .status.revision.current)" "$good"
  equals "ready" "$(field .status.ready)" 2/2
}

look() {
  step "What to look at"
  run kubectl get gi walkthrough -o wide
  run kubectl gaudi rollout history walkthrough
  run kubectl get events --field-selector "involvedObject.uid=$(field .metadata.uid)" --sort-by=.eventTime \
    -o custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message
}

# The client runs demo/traffic.py, which retries nothing, in the image that the deployment's own pods have.
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
  kubectl logs --follow walkthrough-client | head -n 1 > /dev/null    # until the first answer
}

# finish: stop the client; not one of its requests may have failed. `kubectl logs walkthrough-client` has them all.
finish() {
  step "What the client saw"
  kubectl exec walkthrough-client -- sh -c 'kill -TERM 1'
  kubectl wait pod/walkthrough-client --for=jsonpath='{.status.phase}'=Succeeded --timeout=120s
  requests=$(kubectl logs walkthrough-client | wc -l)
  failed=$(kubectl logs walkthrough-client | grep -vc '"error": ""' || true)
  printf '%d requests, %d failed\n' "$requests" "$failed"
  [ "$requests" -gt 0 ] || wrong "The client sent nothing."
  equals "the number of failed requests" "$failed" 0
  printf '\nAs promised.\n'
}
