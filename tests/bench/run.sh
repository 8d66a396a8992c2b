#!/bin/sh
# Builds a release with its benchmarks, runs them and prints the figures.
#
#   tests/bench/run.sh [--json] [--build-time] [--image NAME]
#
#   --json        the serving figures as JSON
#   --build-time  time a clean build of server and client too
#   --image NAME  print the size of that image (podman, buildah or docker)
#
# BUILD_DIR: where to build (build/bench).
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD_DIR:-$root/build/bench}
json=
build_time=no
image=

usage() { sed -n '2,10s/^# \{0,1\}//p' "$0"; }

while [ $# -gt 0 ]; do
  case $1 in
    --json) json=--json ;;
    --build-time) build_time=yes ;;
    --image)
      [ $# -ge 2 ] || { usage >&2; exit 2; }
      image=$2
      shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "run.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

configure() {
  cmake -S "$root" -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DATTN_BUILD_TESTS=OFF -DATTN_BUILD_BENCHMARKS="$2" >/dev/null
}

clean_build_seconds() {
  folder=$(mktemp -d)
  start=$(date +%s)
  configure "$folder" OFF
  # A compiler cache would answer instead of the compiler.
  CCACHE_DISABLE=1 ninja -C "$folder" attn-server attn >/dev/null
  end=$(date +%s)
  rm -rf "$folder"
  echo $((end - start))
}

image_size() {
  for engine in podman docker; do
    if command -v $engine >/dev/null 2>&1; then
      $engine image inspect --format '{{.Size}}' "$1" && return
    fi
  done
  if command -v buildah >/dev/null 2>&1; then
    buildah images --format '{{.Size}}' "$1" && return
  fi
  echo "run.sh: no engine knows the image $1" >&2
  return 1
}

configure "$build" ON
ninja -C "$build" attn-server attn-echo-server attn-serving-bench \
  attn-kernels-bench >&2

if [ -z "$json" ]; then
  echo "== kernels in process"
  "$build/bin/attn-kernels-bench"
  echo
  echo "== serving"
fi
"$build/bin/attn-serving-bench" --bin "$build/bin" $json

if [ $build_time = yes ]; then
  echo "clean build of server and client: $(clean_build_seconds) s" \
    "on $(nproc) cores" >&2
fi
if [ -n "$image" ]; then
  echo "image $image: $(image_size "$image") bytes" >&2
fi
