#!/usr/bin/env bash
# Builds the image and runs it the way a cluster would, without a container
# engine's daemon: makes its own base of Debian 12, builds with buildah, runs
# with podman as the image's user, with a read-only root and no capabilities,
# and asks it for health, the example and its metrics. Needs root.
#
#   deploy/image/build_and_run.sh [FOLDER]
#
# FOLDER keeps the base and the image for the next run; without it both are
# removed.
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

readonly image="localhost/attn:dev"
container=""

# Settings that need no systemd, no own cgroups and no raised limits.
write_settings() {
  cat >"$store/storage.conf" <<END
[storage]
driver = "overlay"
runroot = "$store/run"
graphroot = "$store/graph"
END
  cat >"$store/containers.conf" <<END
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
[network]
network_backend = "netavark"
END
  export CONTAINERS_STORAGE_CONF="$store/storage.conf"
  export CONTAINERS_CONF="$store/containers.conf"
}

# What debian:bookworm-slim holds, made here from the packages themselves.
make_base() {
  podman image exists docker.io/library/debian:bookworm-slim && return
  say "making the base of Debian 12"
  rm -rf "$store/root"
  run_logged debootstrap --variant=minbase bookworm "$store/root"
  rm -rf "$store"/root/var/cache/apt/archives/*.deb \
    "$store"/root/usr/share/{doc,man,locale}/* "$store"/root/var/lib/apt/lists/*
  tar -C "$store/root" -cf "$store/base.tar" .
  run_logged podman import "$store/base.tar" \
    docker.io/library/debian:bookworm-slim
  rm -rf "$store/root" "$store/base.tar"
}

build_image() {
  say "building $image"
  run_logged buildah bud --isolation chroot --pull-never --format docker \
    --build-arg REVISION="$(revision)" -t "$image" -f Dockerfile .
  say "$image is $(image_megabytes) MB"
}

revision() {
  git -c safe.directory='*' rev-parse HEAD 2>/dev/null || echo unknown
}

image_megabytes() {
  podman image inspect --format '{{.Size}}' "$image" |
    awk '{printf "%.0f", $1 / 1e6}'
}

start_container() {
  say "running it: user 10001, read-only, no capabilities, 1 GB"
  container="$(podman run --detach --no-healthcheck --read-only \
    --cap-drop all --security-opt no-new-privileges --memory 1g \
    --volume "$ATTN_ROOT/deploy/example:/example:ro" "$image")"
}

inside() { podman exec "$container" "$@"; }

await_health() {
  local deadline=$((SECONDS + 60))
  until inside attn --timeout 2s health >/dev/null 2>&1; do
    ((SECONDS < deadline)) || {
      podman logs "$container" >&2
      fail "the container is not SERVING after 60 s"
    }
    sleep 0.2
  done
  say "the image's own health check: $(inside attn --timeout 2s health)"
}

check_container() {
  local address
  [[ "$(inside id -u)" == 10001 ]] || fail "it does not run as user 10001"
  inside touch /probe 2>/dev/null && fail "its root can be written"
  inside attn attend --input /example/example.npz --causal --compare \
    --tokens /example/tokens.json --heatmap --head 1
  address="$(podman inspect \
    --format '{{.NetworkSettings.IPAddress}}' "$container")"
  scrape "$address" 8002 | grep -q '^attn_build_info' ||
    fail "no metrics at $address:8002"
  say "metrics answer at $address:8002"
}

scrape() {
  exec 9<>"/dev/tcp/$1/$2"
  printf 'GET /metrics HTTP/1.0\r\nHost: %s\r\n\r\n' "$1" >&9
  cat <&9
  exec 9>&-
}

stop_container() {
  local code
  podman stop --time 40 "$container" >/dev/null
  code="$(podman inspect --format '{{.State.ExitCode}}' "$container")"
  [[ "$code" == 0 ]] || fail "it stopped with exit code $code, not 0"
  say "stopped by TERM with exit code 0"
}

clean_up() {
  [[ -z "$container" ]] || podman rm --force "$container" >/dev/null 2>&1 || true
  "$keep" || { podman rmi --all --force >/dev/null 2>&1 || true; rm -rf "$store"; }
}

main() {
  [[ "$(id -u)" == 0 ]] ||
    fail "containers need root here: run 'sudo deploy/image/build_and_run.sh'"
  cd "$ATTN_ROOT"
  deploy/install_packages.sh image
  keep=false
  if (($# > 0)); then
    keep=true
    mkdir -p "$1"
    store="$(cd "$1" && pwd)"
  else
    store="$(mktemp -d)"
  fi
  trap clean_up EXIT
  write_settings
  make_base
  build_image
  start_container
  await_health
  check_container
  stop_container
  say "the image is $(image_megabytes) MB and serves"
}

main "$@"
