{{- define "gaudi-operator.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "gaudi-operator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gaudi-operator.labels" -}}
{{ include "gaudi-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /*
Metadata of an object. Called with a dict: `root`; `suffix` after the common name, or another `name`; and optionally
`namespace`, `labels` and `annotations` only of that object, and `moreLabels`. None of the chart's own labels are replaced
by `moreLabels`, and none of all these by common labels and annotations.
*/ -}}
{{- define "gaudi-operator.metadata" -}}
{{- $own := include "gaudi-operator.labels" .root | fromYaml -}}
name: {{ .name | default (printf "%s%s" (include "gaudi-operator.name" .root) (.suffix | default "")) }}
{{- with .namespace }}
namespace: {{ . }}
{{- end }}
labels:
  {{- merge (dict) (.labels | default dict) $own (.moreLabels | default dict) .root.Values.commonLabels | toYaml | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The labels of the pod of `helm test`. Its name differs from the operator's, so that no selector of ours matches it. */ -}}
{{- define "gaudi-operator.testLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Called with the value of a monitor: its relabelings. */ -}}
{{- define "gaudi-operator.scraping" }}
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "gaudi-operator.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "gaudi-operator.name" .) -}}
{{- end }}

{{- /* Called with (list $ "value of image" "default name"). */ -}}
{{- define "gaudi-operator.image" -}}
{{- $root := index . 0 -}}
{{- $image := $root.Values.image -}}
{{- /* Without a prefix there is no default image, because no public registry has these names. */ -}}
{{- $default := "" -}}
{{- if $image.prefix }}{{ $default = printf "%s%s:%s" $image.prefix (index . 2) $root.Chart.AppVersion }}{{ end -}}
{{- $reference := index $image (index . 1) | default $default -}}
{{- $digest := index $image.digests (index . 1) -}}
{{- if and $reference $digest }}{{ printf "%s@%s" $reference $digest }}{{ else }}{{ $reference }}{{ end -}}
{{- end }}
