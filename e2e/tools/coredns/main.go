// Command coredns is CoreDNS with no plugins but those of two Corefiles: the local cluster's (../../local_cluster.py), and
// the one that kubeadm writes into a kind cluster. All plugins would take minutes more to build and modules of every cloud.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// In the order in which a query passes them.
	dnsserver.Directives = []string{
		"reload", "bind", "ready", "health", "prometheus", "errors", "loadbalance", "cache", "kubernetes", "loop", "forward"}
	coremain.Run()
}
