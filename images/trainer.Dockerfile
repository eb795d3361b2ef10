# trainyard/trainer. `make images` builds it; by hand, from the root of a clone:
#   docker build -f images/trainer.Dockerfile .
# BINARIES=source compiles in the build stage; BINARIES=prebuilt takes bin/ of the context, which images/build.py stages.
# CUDA=yes adds the GPU plug-in and NVIDIA's cuBLASLt; prebuilt: if bin/cuda is there.
ARG BASE=docker.io/library/debian:bookworm-20250520-slim

FROM ${BASE} AS build
ARG BINARIES=source
ARG CUDA=no
ARG VERSION=0.0.0
ARG JOBS=2
COPY . /src
RUN sh /src/images/in_stage.sh "$BINARIES" trainer "$VERSION" "$JOBS" /rootfs "$CUDA"

FROM scratch
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="trainer" \
      org.opencontainers.image.description="One task of a training cluster: parameter server, worker, chief or evaluator" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /rootfs /
# What NVIDIA's container runtime brings along where a pod has a GPU: the driver's libraries for CUDA and NVML.
ENV PATH=/usr/local/bin HOME=/home/nonroot NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /home/nonroot
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/trainer"]
