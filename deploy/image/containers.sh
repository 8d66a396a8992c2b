# Containers without a container engine's daemon, and the base that images of
# ours stand on. Source it after deploy/common.sh.
# shellcheck shell=bash

readonly DEBIAN_IMAGE="docker.io/library/debian:bookworm-slim"
# The caller reads it.
# shellcheck disable=SC2034
readonly ATTN_IMAGE="localhost/attn:dev"

# use_containers <folder>: images and containers of this script are kept there.
# Settings that need no systemd, no own cgroups and no raised limits.
use_containers() {
  local files
  files="$(ulimit -Hn)"
  CONTAINERS_STORE="$1"
  cat >"$1/storage.conf" <<CONF
[storage]
driver = "overlay"
runroot = "$1/run"
graphroot = "$1/graph"
CONF
  cat >"$1/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=$files:$files", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
[network]
network_backend = "netavark"
CONF
  export CONTAINERS_STORAGE_CONF="$1/storage.conf"
  export CONTAINERS_CONF="$1/containers.conf"
}

# What debian:bookworm-slim holds, made here from the packages themselves.
make_base() {
  local root="$CONTAINERS_STORE/root"
  podman image exists "$DEBIAN_IMAGE" && return
  say "making the base of Debian 12"
  rm -rf "$root"
  run_logged debootstrap --variant=minbase bookworm "$root"
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* \
    "$root"/usr/share/{man,locale}/*
  # Licences stay.
  find "$root/usr/share/doc" ! -type d ! -name copyright -path '*/doc/*/*' \
    -delete
  # As there: a layer that is written in half is never used.
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
  tar -C "$root" -cf "$root.tar" .
  run_logged podman import "$root.tar" "$DEBIAN_IMAGE"
  rm -rf "$root" "$root.tar"
}

# build_image <tag> <dockerfile> <folder> [argument...]
build_image() {
  local tag="$1" dockerfile="$2" folder="$3"
  shift 3
  run_logged buildah bud --isolation chroot --pull-never --format docker "$@" \
    -t "$tag" -f "$dockerfile" "$folder"
}

image_megabytes() {
  podman image inspect --format '{{.Size}}' "$1" |
    awk '{printf "%.0f", $1 / 1e6}'
}
