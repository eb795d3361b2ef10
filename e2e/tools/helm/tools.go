//go:build tools

// Package tools pins Helm, with which the chart is linted, rendered and installed in tests; its client
// libraries need not be those of the control plane, so it has a module of its own.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
