# syntax=docker/dockerfile:1
# An image of two programs and what they need, without a shell. Packages come from
# deploy/packages, as everywhere else. Building it without a container engine's
# daemon: deploy/image/build_and_run.sh. What is in it: deploy/image/README.md.
FROM debian:bookworm-slim AS build
WORKDIR /src
COPY deploy/packages/build.txt deploy/packages/runtime.txt \
     deploy/packages/image-build.txt deploy/packages/
COPY deploy/common.sh deploy/install_packages.sh deploy/
RUN deploy/install_packages.sh build runtime image-build
COPY CMakeLists.txt CMakePresets.json ./
COPY engine engine
COPY proto proto
COPY server server
COPY client client
# Nothing but a faster second build: the compiler cache asks for the language too.
ARG CCACHE_DIR=/root/.cache/ccache
ARG LANG=C.UTF-8
RUN --mount=type=cache,target=/root/.cache/ccache \
    bash -c 'source deploy/common.sh && build_preset release attn-server attn'
COPY LICENSE ./
COPY deploy/image/collect.sh deploy/image/sbom.py deploy/image/
ARG VERSION=0.1.0
RUN strip build/release/bin/attn-server build/release/bin/attn \
 && deploy/image/collect.sh /image /state build/release/bin/attn-server \
    build/release/bin/attn -- /usr/include/boost/version.hpp \
    /usr/include/CLI/CLI.hpp /usr/include/hwy/highway.h \
    /usr/include/nlohmann/json.hpp \
 && deploy/image/sbom.py /image "$VERSION" >/sbom.json \
 && mv /sbom.json /image/usr/share/doc/attn/sbom.cdx.json

FROM scratch
COPY --from=build /image/ /
# Where a volume for --session-dir or --layer-dir is mounted: empty, and the only
# folder that is the user's own.
COPY --from=build --chown=10001:10001 /state/ /var/lib/
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="attn" \
      org.opencontainers.image.description="Attention as a service, by gRPC" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
# Writes nothing to disk, but what --session-dir and --layer-dir name: run it with
# a read-only root and no capabilities.
USER 10001:10001
ENV PATH=/usr/local/bin \
    ATTN_GRPC_ADDRESS=0.0.0.0:8001 \
    ATTN_METRICS_ADDRESS=0.0.0.0:8002 \
    ATTN_HTTP_ADDRESS=0.0.0.0:8000
EXPOSE 8000 8001 8002
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
  CMD ["/usr/local/bin/attn", "--timeout", "2s", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/attn-server"]
