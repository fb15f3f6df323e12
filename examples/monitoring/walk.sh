#!/bin/sh
# Install the operator on a cluster with Prometheus, warm up a model, upgrade it under load, and make two alerts fire and
# resolve.
#
# Requires kubectl, helm and kubectl-gaudi on the PATH, the images of `make demo` on the nodes, a node with eight free cards
# (as in the local cluster), and a Prometheus that is configured as in docs/how-to/monitoring.md and has the chart's alerts.
# PROMETHEUS is its path on the API server. All other objects are created in the current namespace of kubectl.
. "$(dirname "$0")/../upgrade/common.sh"

PROMETHEUS=${PROMETHEUS:-/api/v1/namespaces/monitoring/services/prometheus:9090/proxy}
TIMEOUT_SECONDS=${TIMEOUT_SECONDS:-300}
cd "$here/../.."

# prometheus QUERY: print the labels and the value of each series of the result.
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

# query QUERY: wait until the query has a result, and print the result.
query() {
  printf '\nPromQL: %s\n' "$1"
  until_true "a result of: $1" has_result "$1"
  prometheus "$1"
}

# panel DASHBOARD TITLE: run the first query of that panel for this model, and print the result.
panel() {
  printf '\nDashboard %s, panel "%s"' "$1" "$2"
  query "$(python3 -c '
import json, sys
dashboard, title, namespace = sys.argv[1:]
panels = json.load(open(f"charts/gaudi-operator/files/dashboards/{dashboard}.json"))["panels"]
query = next(each for each in panels if each["title"] == title)["targets"][0]["expr"]
for variable, value in (("$namespace", namespace), ("$name", "walkthrough"), ("$__rate_interval", "1m")):
    query = query.replace(variable, value)
print(query)' "$1" "$2" "$(kubectl config view --minify -o jsonpath='{..namespace}')")"
}

has_result() {
  [ -n "$(prometheus "$1")" ]
}

# until_true WHAT COMMAND...: wait until the command succeeds.
until_true() {
  what=$1 left=$TIMEOUT_SECONDS
  shift
  until "$@"; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || fail "Waited $TIMEOUT_SECONDS s in vain for $what."
    sleep 1
  done
}

# alert_fires ALERT: succeed if the alert fires for the model.
alert_fires() {
  has_result "ALERTS{alertname=\"$1\", alertstate=\"firing\", name=\"walkthrough\"}"
}

no_alert_fires() {
  ! has_result 'ALERTS{alertstate="firing", name="walkthrough"}'
}

expect_alert() {
  until_true "alert $1" alert_fires "$1"
  printf '\nAlert %s fires.\n' "$1"
}

expect_no_alert() {
  until_true "all alerts to resolve" no_alert_fires
  printf '\nNo alert fires.\n'
}

step "Install the operator"
run helm install gaudi-operator charts/gaudi-operator --namespace gaudi-system --create-namespace \
  --values examples/monitoring/values.yaml --wait
query 'gaudi_operator_leader'

step "Apply a model and show the panels of its warm-up"
# The API server may refuse the resource in the first seconds with "not yet synced to use for admission".
until_true "the API server to accept the new kinds" run kubectl apply -f examples/monitoring/model.yaml
panel model "Warm-up"
panel model "Status"
run kubectl gaudi status walkthrough
run kubectl gaudi rollout status walkthrough --timeout=5m
good=$(field .status.revision.current)
panel model "Captured graphs"
expect_no_alert

step "An upgrade under load"
start_client
patch_spec <<'YAML'
spec:
  bucketing:
    prompt:
      query: {min: 128, step: 128}
YAML
panel upgrade "Warm-up of each pod"
panel upgrade "Pods of each revision that serve"
expect_rollout
good=$(field .status.revision.current)
panel upgrade "Revisions"
panel upgrade "Answers by revision"
panel upgrade "Batches that met no warm graph, by revision"
no_alert_fires || fail "An alert fires during a good upgrade."
printf '\nNo alert fires.\n'

step "Roll out a revision whose graphs do not fit: it is rolled back, and an alert fires"
patch_spec <<'YAML'
spec:
  bucketing:
    prompt:
      query: {min: 32, step: 32}
YAML
expect_rollback CapturedBelowThreshold "of 16 prompt buckets"
expect_alert GaudiModelRolledBack
run kubectl gaudi status walkthrough

step "Follow the runbook of GaudiModelRolledBack"
run kubectl gaudi rollout undo walkthrough
expect_rollout
expect_no_alert
finish

step "Upgrade a model that uses all cards: the upgrade stops, and an alert fires"
begin ../upgrade/cards.yaml
patch_spec <<'YAML'
spec:
  rollout:
    type: Surge
  bucketing:
    prompt:
      query: {min: 128, step: 128}
YAML
expect_stalled UpgradeBlocked
expect_alert GaudiModelStalled
run kubectl gaudi status walkthrough

step "Follow the runbook of GaudiModelStalled for UpgradeBlocked"
run kubectl patch gi walkthrough --type merge -p '{"spec":{"rollout":{"type":"SurgeThenInPlace","maxUnavailable":1}}}'
expect_rollout
expect_no_alert
finish
