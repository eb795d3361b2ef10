# trainyard/operator. `make images` builds it; by hand, from the root of a clone:
#   docker build -f images/operator.Dockerfile .
# BINARIES=source compiles in the build stage; BINARIES=prebuilt takes bin/ of the context, which images/build.py stages.
ARG BASE=docker.io/library/debian:bookworm-20250520-slim

FROM ${BASE} AS build
ARG BINARIES=source
ARG VERSION=0.0.0
ARG JOBS=2
COPY . /src
RUN sh /src/images/in_stage.sh "$BINARIES" trainyard-operator "$VERSION" "$JOBS" /rootfs

FROM scratch
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="trainyard-operator" \
      org.opencontainers.image.description="Runs kubeflow.org/v1 TFJobs on Kubernetes" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /rootfs /
ENV PATH=/usr/local/bin HOME=/home/nonroot
WORKDIR /home/nonroot
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/trainyard-operator"]
