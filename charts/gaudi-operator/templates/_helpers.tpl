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

{{- define "gaudi-operator.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "gaudi-operator.name" .) -}}
{{- end }}

{{- /* Called with (list $ "value of image" "default name"). */ -}}
{{- define "gaudi-operator.image" -}}
{{- $root := index . 0 -}}
{{- $image := $root.Values.image -}}
{{- /* Without a prefix there is no default: nobody publishes these names. */ -}}
{{- $default := "" -}}
{{- if $image.prefix }}{{ $default = printf "%s%s:%s" $image.prefix (index . 2) $root.Chart.AppVersion }}{{ end -}}
{{- index $image (index . 1) | default $default -}}
{{- end }}
