#!/usr/bin/env bash
# The engine beside PyTorch, ONNX Runtime, oneDNN's Graph API and ggml on the
# shapes of peers/shapes.csv, and beside what the machine can do at most.
#
#   tests/bench/peers.sh [option...]
#
#   --threads 1,2    numbers of threads, each pinned to as many cores (1,2)
#   --dtypes LIST    of f32,bf16,f16,i8 (all)
#   --shapes LIST    names of peers/shapes.csv (all)
#   --rounds N       rounds, in each of which everything runs once (3)
#   --budget S       seconds of measuring for each shape and program (0.4)
#   --no-peers       ours and the limits only
#   --json FILE      also as JSON
#   --markdown       as a table for README.md
#   --measured FILE  keep what was measured as CSV, or go on with such a file
#
# A plot goes to peers.png in the build folder. The peers live in a Debian
# unstable root that peers/setup.sh makes once (PEERS_ROOT); where it cannot, they
# are left out, and the output says so. BUILD_DIR: where to build (build/bench).
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"
here="$ATTN_ROOT/tests/bench/peers"
build="${BUILD_DIR:-$ATTN_ROOT/build/bench}"
export PEERS_ROOT="${PEERS_ROOT:-$HOME/.cache/attn-peers}"
shapes="$here/shapes.csv"

threads=1,2
dtypes=f32,bf16,f16,i8
only=
rounds=3
budget=0.4
peers=yes
measured=
report=()

usage() { sed -n '2,20s/^# \{0,1\}//p' "$0"; }

parse() {
  while (($# > 0)); do
    case "$1" in
      --no-peers) peers=no ;;
      --markdown) report+=(--markdown) ;;
      -h | --help) usage; exit 0 ;;
      --threads | --dtypes | --shapes | --rounds | --budget | --json | \
        --measured)
        (($# > 1)) || fail "$1 needs a value"
        case "$1" in
          --threads) threads="$2" ;;
          --dtypes) dtypes="$2" ;;
          --shapes) only="$2" ;;
          --rounds) rounds="$2" ;;
          --budget) budget="$2" ;;
          --json) report+=(--json "$2") ;;
          --measured) measured="$2" ;;
        esac
        shift ;;
      *) usage >&2; fail "unknown option $1" ;;
    esac
    shift
  done
}

build_ours() {
  [[ -f "$build/build.ninja" ]] || cmake -S "$ATTN_ROOT" -B "$build" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DATTN_BUILD_TESTS=OFF \
    -DATTN_BUILD_BENCHMARKS=ON >/dev/null
  ninja -C "$build" attn-peers-bench attn-limits >/dev/null
}

# Makes the root, or leaves the peers out and says so.
prepare_peers() {
  [[ "$peers" == yes ]] || { note "peers were not asked for"; return 0; }
  if [[ "$(id -u)" == 0 ]] &&
    run_logged "$here/setup.sh" >&2; then
    return
  fi
  peers=no
  note "SKIPPED: no root with the peers could be made in $PEERS_ROOT"
}

note() { say "$*" >&2; }

# The cores that so many threads are pinned to.
cores() { (($1 == 1)) && echo 0 || echo "0-$(($1 - 1))"; }

in_root() {
  local count="$1"
  shift
  # -i: none of this shell's settings may reach the peers.
  taskset -c "$(cores "$count")" chroot "$PEERS_ROOT" env -i PATH=/usr/bin:/bin \
    HOME=/root OMP_NUM_THREADS="$count" OPENBLAS_NUM_THREADS=1 "$@" \
    2>>"$log" || note "a peer failed, see $log: $*"
}

# round_of_peers <threads> <dtype>
round_of_peers() {
  local count="$1" dtype="$2" tool=/opt/attn-peers
  local lib=/usr/lib/x86_64-linux-gnu operator
  local chosen=(--threads "$count" --budget "$budget" --only "$only")
  # This build of torch has no fast product of narrow floats (20 to 40 times
  # slower than F32): it would only cost time.
  if [[ "$dtype" == f32 ]]; then
    if [[ -e "$PEERS_ROOT$lib/libmkl_rt.so" ]]; then
      in_root "$count" MKL_THREADING_LAYER=GNU MKL_INTERFACE_LAYER=LP64 \
        LD_PRELOAD="$lib/libgomp.so.1:$lib/libmkl_rt.so" \
        python3 "$tool/torch_bench.py" --tag mkl "${chosen[@]}"
    fi
    in_root "$count" python3 "$tool/torch_bench.py" --tag openblas \
      "${chosen[@]}"
    for operator in mha gqa onnx; do
      in_root "$count" python3 "$tool/ort_bench.py" --operator "$operator" \
        "${chosen[@]}"
    done
  fi
  local plain=("$tool/shapes.csv" "$count" "$dtype" "$only" "$budget")
  case "$dtype" in
    f32 | bf16) in_root "$count" "$tool/dnnl_graph_bench" "${plain[@]}" ;;
  esac
  in_root "$count" "$tool/ggml_bench" "${plain[@]}"
}

# What decodes and biases read, for the limits.
read_sizes() {
  (cd "$here" && python3 - "$only" "$1" <<'PYTHON'
import sys
import report
import shapes
only, dtype = sys.argv[1:]
sizes = {report.bytes_of(shape, dtype) for shape in shapes.read_shapes()
         if dtype in shape.dtypes and
         (not only or shape.name in only.split(","))}
print(",".join(str(size) for size in sorted(sizes - {0})))
PYTHON
  )
}

# round <threads> <dtype>: everything once, ours before and after the peers.
round() {
  local count="$1" dtype="$2" reads ours
  reads="$(read_sizes "$dtype")"
  ours=(taskset -c "$(cores "$count")" "$build/bin/attn-peers-bench" "$shapes"
    --threads "$count" --dtype "$dtype" --budget "$budget"
    ${only:+--only "$only"})
  taskset -c "$(cores "$count")" "$build/bin/attn-limits" --threads "$count" \
    ${reads:+--read "$reads"}
  "${ours[@]}" || note "not everything could be computed"
  [[ "$peers" == no ]] || round_of_peers "$count" "$dtype"
  "${ours[@]}" --memory || true
}

measure() {
  local i count dtype
  for ((i = 1; i <= rounds; ++i)); do
    for count in ${threads//,/ }; do
      for dtype in ${dtypes//,/ }; do
        note "round $i of $rounds: $count thread(s), $dtype"
        round "$count" "$dtype" >>"$measured"
      done
    done
  done
}

parse "$@"
"$ATTN_ROOT/deploy/install_packages.sh" build bench peers
build_ours
mkdir -p "$build"
log="$build/peers.log"
: >"$log"
if [[ -z "$measured" ]]; then
  measured="$build/peers.csv"
  : >"$measured"
fi
prepare_peers
measure
[[ "$peers" == yes ]] || note "without peers there is no ratio"
python3 "$here/report.py" "$measured" --plot "$build/peers.png" "${report[@]}"
