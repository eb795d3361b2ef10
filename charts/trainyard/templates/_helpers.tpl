{{- define "trainyard.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of cluster-wide objects: releases of one name in two namespaces must not meet. */}}
{{- define "trainyard.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "trainyard.fullname" .) -}}
{{- end -}}

{{- define "trainyard.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "trainyard.labels" -}}
{{ include "trainyard.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: operator
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "trainyard.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "trainyard.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: name the one to use, because serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "trainyard.image" -}}
{{- $repository := required "image.repository: name an image that you built, with trainyard-operator on its PATH; none is published yet (docs/install.md)" .Values.image.repository -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{/* The gang scheduler as the operator understands it: "none" is none. */}}
{{- define "trainyard.gang" -}}
{{- if ne (lower .Values.gangScheduler) "none" -}}{{ .Values.gangScheduler }}{{- end -}}
{{- end -}}

{{/* What the operator does with jobs and what they are made of: these verbs, no others; e2e/chart.py proves it. */}}
{{- define "trainyard.rules" -}}
- apiGroups: [kubeflow.org]
  resources: [tfjobs]
  verbs: [list, watch, delete]
- apiGroups: [kubeflow.org]
  resources: [tfjobs/status]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- with include "trainyard.gang" . }}
- apiGroups: [{{ ternary "scheduling.volcano.sh" "scheduling.x-k8s.io" (eq . "volcano") }}]
  resources: [podgroups]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- with .Values.rbac.extraRules }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "trainyard.subjects" -}}
- kind: ServiceAccount
  name: {{ include "trainyard.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
