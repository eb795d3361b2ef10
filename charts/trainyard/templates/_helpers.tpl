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
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Who a pod of the operator is and where it may run: of the Deployment and of the test. */}}
{{- define "trainyard.pod" -}}
serviceAccountName: {{ include "trainyard.serviceAccount" . }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "trainyard.restricted" 65532 | nindent 2 }}
{{- end -}}

{{/* Pod Security's restricted profile, of a pod of this user and of its containers. */}}
{{- define "trainyard.restricted" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}
{{- define "trainyard.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "trainyard.args" -}}
- --leader-election-id={{ .Values.leaderElection.leaseName }}
- --leader-election-namespace={{ .Release.Namespace }}
{{- with .Values.namespaces }}
- --namespace={{ join "," . }}
{{- end }}
{{- with include "trainyard.gang" . }}
- --gang-scheduler-name={{ . }}
{{- end }}
- --log-format={{ .Values.log.format }}
- --log-level={{ .Values.log.level }}
{{- if .Values.page.enabled }}
- --page-bind-address=:8082
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
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
  verbs: [get, list, watch, create, delete, deletecollection]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete, deletecollection]
- apiGroups: [""]
  resources: [secrets]  # of jobs whose tasks speak TLS; get: only where a name is taken
  verbs: [get, create]
- apiGroups: [""]
  resources: [persistentvolumeclaims]  # of volumeClaimTemplates; delete: only where whenScaled says so
  verbs: [get, create, delete]
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
