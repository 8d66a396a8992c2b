#!/bin/sh
# Builds a release with its benchmarks, runs them and prints the figures.
#
#   tests/bench/run.sh [option...]
#
#   --rows LIST         only these rows of serving, and no kernels: tiny,
#                       transport,large,prefill,lone,fill,first,torch,start
#   --rounds N          rounds of each row (9)
#   --seconds S         length of one measurement (0.4)
#   --json FILE         the serving figures as JSON too
#   --markdown          those with goals as a table for README.md too
#   --attn-server FILE  this server in place of the one that is built
#   --build-time        time a clean build of server and client too
#   --image NAME        print the size of that image (podman, buildah or docker)
#
# BUILD_DIR: where to build (build/bench). PEERS_ROOT: the root that
# peers/setup.sh makes (~/.cache/attn-peers); without one the row `torch` is left
# out, and the output says so.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD_DIR:-$root/build/bench}
peers=${PEERS_ROOT:-$HOME/.cache/attn-peers}
kernels=yes
build_time=no
image=

usage() { sed -n '2,19s/^# \{0,1\}//p' "$0"; }

# What attn-serving-bench is told comes last in "$@", behind what is still to
# be read.
left=$#
while [ "$left" -gt 0 ]; do
  option=$1
  shift
  left=$((left - 1))
  case $option in
    --rows | --rounds | --seconds | --json | --attn-server | --image)
      [ "$left" -ge 1 ] || { usage >&2; exit 2; }
      value=$1
      shift
      left=$((left - 1))
      case $option in
        --image) image=$value ;;
        *) set -- "$@" "$option" "$value" ;;
      esac
      [ "$option" != --rows ] || kernels=no ;;
    --markdown) set -- "$@" --markdown ;;
    --build-time) build_time=yes ;;
    -h | --help) usage; exit 0 ;;
    *) echo "run.sh: unknown option $option" >&2; usage >&2; exit 2 ;;
  esac
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

if [ $kernels = yes ]; then
  echo "== kernels in process"
  "$build/bin/attn-kernels-bench"
  echo
fi
"$build/bin/attn-serving-bench" --peers-root "$peers" "$@"

if [ $build_time = yes ]; then
  echo "clean build of server and client: $(clean_build_seconds) s" \
    "on $(nproc) cores" >&2
fi
if [ -n "$image" ]; then
  echo "image $image: $(image_size "$image") bytes" >&2
fi
