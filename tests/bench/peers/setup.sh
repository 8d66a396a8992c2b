#!/usr/bin/env bash
# Makes a Debian unstable root that holds the peers (PyTorch with MKL and with
# OpenBLAS, ONNX Runtime, oneDNN 3's Graph API, ggml, and gRPC for Python) and
# builds their benches in it: about 5 minutes and 3 GB. Needs root, debootstrap
# and a network.
#
#   setup.sh       makes or refreshes the root
#   setup.sh -u    takes its mounts away
#
# PEERS_ROOT: where (~/.cache/attn-peers).
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="${PEERS_ROOT:-$HOME/.cache/attn-peers}"
inside="$root/opt/attn-peers"
packages=(python3-numpy python3-torch libopenblas0-pthread python3-onnxruntime
  python3-onnx python3-grpcio g++ libdnnl-dev libggml-dev)

mount_all() {
  mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
  local place
  for place in dev sys; do
    mountpoint -q "$root/$place" || mount --bind "/$place" "$root/$place"
  done
}

unmount_all() {
  local place
  for place in proc dev sys; do
    ! mountpoint -q "$root/$place" || umount "$root/$place"
  done
}

install_in_root() {
  DEBIAN_FRONTEND=noninteractive chroot "$root" \
    apt-get -o Acquire::Retries=3 install -y -q --no-install-recommends "$@"
}

install_peers() {
  [[ -x "$root/usr/bin/dpkg" ]] ||
    debootstrap --variant=minbase unstable "$root"
  mount_all
  # MKL is not free software.
  grep -qs non-free "$root/etc/apt/sources.list" ||
    sed -i 's/ main$/ main non-free/' "$root/etc/apt/sources.list"
  # A mirror may be older than its promise.
  chroot "$root" apt-get -o Acquire::Retries=3 \
    -o Acquire::Check-Valid-Until=false update -q
  install_in_root "${packages[@]}"
  install_in_root libmkl-rt libmkl-gnu-thread libmkl-avx512 libmkl-def \
    libmkl-intel-lp64 || echo "setup.sh: no MKL: torch runs on OpenBLAS alone"
}

# build <name> <library...>: /opt/attn-peers/<name> in the root.
build() {
  local name="$1"
  shift
  chroot "$root" g++ -O3 -march=native -std=c++20 \
    "/opt/attn-peers/$name.cc" -o "/opt/attn-peers/$name" "$@"
}

if [[ "${1:-}" == -u ]]; then
  unmount_all
  exit
fi
# A root of other packages is brought up to these.
[[ -e "$inside/installed" && "$(cat "$inside/installed")" == "${packages[*]}" ]] ||
  install_peers
mount_all
mkdir -p "$inside"
cp "$here"/*.py "$here"/*.sh "$here"/*.csv "$here"/*.h "$here"/*.cc "$inside"
build dnnl_graph_bench -ldnnl
build ggml_bench -lggml -lggml-base -pthread
echo "${packages[*]}" >"$inside/installed"
