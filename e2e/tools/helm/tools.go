//go:build tools

// Package tools pins Helm, with which the chart is linted, rendered and installed in tests, and Kustomize, which builds
// the base beside it; their client libraries need not be those of the control plane, so they have a module of their own.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
	_ "sigs.k8s.io/kustomize/kustomize/v5"
)
