# syntax=docker/dockerfile:1
# Packages come from deploy/packages, as everywhere else. Building it without a
# container engine's daemon: deploy/image/build_and_run.sh.
FROM debian:bookworm-slim AS build
WORKDIR /src
COPY deploy/packages deploy/packages
COPY deploy/common.sh deploy/install_packages.sh deploy/
RUN deploy/install_packages.sh build
COPY CMakeLists.txt CMakePresets.json ./
COPY engine engine
COPY proto proto
COPY server server
COPY client client
RUN cmake --preset release \
 && cmake --build --preset release \
 && strip build/release/bin/attn-server build/release/bin/attn

FROM debian:bookworm-slim
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="attn" \
      org.opencontainers.image.description="Attention as a service, by gRPC" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN --mount=type=bind,source=deploy,target=/mnt/deploy \
    /mnt/deploy/install_packages.sh runtime \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt \
           /var/log/dpkg.log /usr/share/doc/* /usr/share/man/*
COPY --from=build /src/build/release/bin/attn-server /src/build/release/bin/attn \
     /usr/local/bin/
# Writes nothing to disk: run it with a read-only root and no capabilities.
USER 10001:10001
ENV ATTN_GRPC_ADDRESS=0.0.0.0:8001 \
    ATTN_METRICS_ADDRESS=0.0.0.0:8002 \
    ATTN_HTTP_ADDRESS=0.0.0.0:8000
EXPOSE 8000 8001 8002
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
  CMD ["attn", "--timeout", "2s", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["attn-server"]
