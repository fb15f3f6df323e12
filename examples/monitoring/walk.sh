#!/bin/sh
# From an empty cluster with a Prometheus: install, warm-up, an upgrade under load, and two alerts that fire and are resolved.
#
# Takes: kubectl, helm and kubectl-gaudi on the PATH; the images of `make demo` on the nodes, one of which has eight free cards,
# as local clusters have; and a Prometheus that scrapes as docs/how-to/monitoring.md says and has the chart's alerts for rules.
# PROMETHEUS is its path on the API server. Everything else happens in the namespace of kubectl's current context.
. "$(dirname "$0")/../upgrade/story.sh"

PROMETHEUS=${PROMETHEUS:-/api/v1/namespaces/monitoring/services/prometheus:9090/proxy}
PATIENCE=${PATIENCE:-300}
cd "$here/../.."

# prometheus QUERY: a line for each series that answers, its labels and its value.
prometheus() {
  kubectl get --raw "$PROMETHEUS/api/v1/query?query=$(python3 -c 'import sys, urllib.parse as u; print(u.quote(sys.argv[1]))' "$1")" |
    python3 -c '
import json, sys
for each in json.load(sys.stdin)["data"]["result"]:
    aside = ("__name__", "job", "instance", "namespace", "name", "inference_gaudi_dev_name")
    labels = (f"{key}={value}" for key, value in sorted(each["metric"].items()) if key not in aside)
    value = float(each["value"][1])
    print("  ", ", ".join(labels) or "all", "=>", f"{value:g}")'
}

# ask QUERY: until it has an answer, and show that.
ask() {
  printf '\nPromQL: %s\n' "$1"
  until_true "Prometheus to know: $1" answered "$1"
  prometheus "$1"
}

# panel DASHBOARD TITLE: the first query of that panel, for this model, and what it shows.
panel() {
  printf '\nDashboard %s, panel "%s"' "$1" "$2"
  ask "$(python3 -c '
import json, sys
dashboard, title, namespace = sys.argv[1:]
panels = json.load(open(f"charts/gaudi-operator/files/dashboards/{dashboard}.json"))["panels"]
query = next(each for each in panels if each["title"] == title)["targets"][0]["expr"]
for variable, value in (("$namespace", namespace), ("$name", "walkthrough"), ("$__rate_interval", "1m")):
    query = query.replace(variable, value)
print(query)' "$1" "$2" "$(kubectl config view --minify -o jsonpath='{..namespace}')")"
}

answered() {
  [ -n "$(prometheus "$1")" ]
}

# until_true WHAT COMMAND...: wait until the command succeeds.
until_true() {
  what=$1 left=$PATIENCE
  shift
  until "$@"; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || wrong "Waited $PATIENCE s in vain for $what."
    sleep 1
  done
}

# firing ALERT: whether it fires for the model.
firing() {
  answered "ALERTS{alertname=\"$1\", alertstate=\"firing\", name=\"walkthrough\"}"
}

silent() {
  ! answered 'ALERTS{alertstate="firing", name="walkthrough"}'
}

fires() {
  until_true "alert $1" firing "$1"
  printf '\nAlert %s fires.\n' "$1"
}

falls_silent() {
  until_true "silence" silent
  printf '\nNo alert fires.\n'
}

step "Install the operator"
run helm install gaudi-operator charts/gaudi-operator --namespace gaudi-system --create-namespace \
  --values examples/monitoring/values.yaml --wait
ask 'gaudi_operator_leader'

step "One apply, and the warm-up as the dashboards see it"
# In its first seconds the API server may refuse it with "not yet synced to use for admission".
until_true "the API server to know the new kinds" run kubectl apply -f examples/monitoring/model.yaml
panel model "Warm-up"
panel model "Phase"
run kubectl gaudi status walkthrough
run kubectl gaudi rollout status walkthrough --timeout=5m
good=$(field .status.revision.current)
panel model "Captured graphs"
falls_silent

step "An upgrade under load"
start_client
change <<'YAML'
spec:
  bucketing:
    prompt:
      query: {min: 128, step: 128}
YAML
panel upgrade "Warm-up of each pod"
panel upgrade "Pods of each revision that serve"
rolled_out
good=$(field .status.revision.current)
panel upgrade "Revisions"
panel upgrade "Answers by revision"
panel upgrade "Batches that met no warm graph, by revision"
silent || wrong "An alert fires in a good upgrade."
printf '\nNo alert fires.\n'

step "A revision whose graphs do not fit: it is rolled back, and an alert says so"
change <<'YAML'
spec:
  bucketing:
    prompt:
      query: {min: 32, step: 32}
YAML
rolled_back CapturedBelowThreshold "of 16 prompt graphs"
fires GaudiModelRolledBack
run kubectl gaudi why walkthrough

step "What the runbook of GaudiModelRolledBack says"
run kubectl gaudi rollout undo walkthrough
rolled_out
falls_silent
finish

step "A model that holds all cards, and an upgrade that finds none: it stops, and an alert says so"
begin ../upgrade/cards.yaml
change <<'YAML'
spec:
  rollout:
    whenNoRoom: Wait
  bucketing:
    prompt:
      query: {min: 128, step: 128}
YAML
stops UpgradeBlocked
fires GaudiModelStalled
run kubectl gaudi why walkthrough

step "What the runbook of GaudiModelStalled says of UpgradeBlocked"
run kubectl patch gi walkthrough --type merge -p '{"spec":{"rollout":{"whenNoRoom":"ReplaceInPlace"}}}'
rolled_out
falls_silent
finish
