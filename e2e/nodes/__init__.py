"""Nodes of the local cluster: real kubelets and container runtimes in namespaces of this machine."""
