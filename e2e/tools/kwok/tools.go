//go:build tools

// Package tools pins the simulator of nodes and pods that the benchmark uses; its client libraries are
// older than those of the control plane, so it has a module of its own.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
