{{- /* The operator's settings; docs/reference/settings.md lists them all. */ -}}
{{- define "gaudi-operator.environment" -}}
- name: GAUDI_OPERATOR_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: GAUDI_OPERATOR_IDENTITY
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: GAUDI_OPERATOR_HTTP_PORT
  value: {{ .Values.httpPort | quote }}
- name: GAUDI_OPERATOR_RUNTIME_IMAGE
  value: {{ include "gaudi-operator.image" (list . "runtime" "gaudi-runtime") | quote }}
- name: GAUDI_OPERATOR_HPU_IMAGE
  value: {{ include "gaudi-operator.image" (list . "hpu" "gaudi-runtime-hpu") | quote }}
- name: GAUDI_OPERATOR_IMAGE_PULL_POLICY
  value: {{ .Values.models.imagePullPolicy }}
- name: GAUDI_OPERATOR_IMAGE_PULL_SECRETS
  value: {{ range $index, $secret := .Values.models.imagePullSecrets }}{{ if $index }},{{ end }}{{ $secret.name }}{{ else }}""{{ end }}
- name: GAUDI_OPERATOR_ALLOW_HOST_PATH
  value: {{ .Values.allowHostPath | toJson | quote }}
- name: GAUDI_OPERATOR_CONTROLLER
  value: {{ .Values.controller | quote }}
- name: GAUDI_OPERATOR_REQUIRE_CLASS
  value: {{ .Values.requireClass | quote }}
- name: GAUDI_OPERATOR_ALLOW_SIMULATION
  value: {{ .Values.allowSimulation | quote }}
- name: GAUDI_OPERATOR_WATCH_NAMESPACES
  value: {{ join "," .Values.watchNamespaces | quote }}
- name: GAUDI_OPERATOR_MONITORING_FROM
  value: {{ .Values.monitoring.from | toJson | quote }}
- name: GAUDI_OPERATOR_GATEWAYS_FROM
  value: {{ .Values.gateways.from | toJson | quote }}
- name: GAUDI_OPERATOR_TRACING
  value: {{ with .Values.monitoring.tracing }}{{ if .endpoint }}{{ ternary . (omit . "protocol") (ne .protocol "") | toJson | quote }}{{ else }}""{{ end }}{{ end }}
- name: GAUDI_OPERATOR_LEASE_NAME
  value: {{ include "gaudi-operator.name" . }}
- name: GAUDI_OPERATOR_LEASE_DURATION_SECONDS
  value: {{ .Values.leaderElection.leaseDurationSeconds | quote }}
- name: GAUDI_OPERATOR_RENEW_DEADLINE_SECONDS
  value: {{ .Values.leaderElection.renewDeadlineSeconds | quote }}
- name: GAUDI_OPERATOR_RETRY_PERIOD_SECONDS
  value: {{ .Values.leaderElection.retryPeriodSeconds | quote }}
- name: GAUDI_OPERATOR_RECONCILE_CONCURRENCY
  value: {{ .Values.tuning.reconcileConcurrency | quote }}
- name: GAUDI_OPERATOR_REPORT_CONNECTIONS
  value: {{ .Values.tuning.reportConnections | quote }}
- name: GAUDI_OPERATOR_REPORT_WAIT_SECONDS
  value: {{ .Values.tuning.reportWaitSeconds | quote }}
- name: GAUDI_OPERATOR_LOG_LEVEL
  value: {{ .Values.logging.level }}
- name: GAUDI_OPERATOR_LOG_FORMAT
  value: {{ .Values.logging.format }}
{{- end }}
