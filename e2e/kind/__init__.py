"""A cluster of the genuine kind tool on a Docker daemon of its own, made without any image registry."""
