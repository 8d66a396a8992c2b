#!/usr/bin/env bash
# Lints the schema, and holds it against the last one that landed:
#   tests/proto/buf.sh [--path]
#
# --path: only fetches buf, and prints where it is.
#
# The base is where this branch left main (origin/main, else main). On main
# itself it is HEAD if the schema has changes that are not committed, else the
# commit before the last one that touched it. Without an earlier schema (a new
# repository, a shallow clone, no git) it says so and lints only.
#
# buf is taken from $BUF, from PATH, or from npm into build/tools/buf.
set -euo pipefail

readonly BUF_VERSION=1.75.0
readonly SCHEMA=proto/attention
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly TOOLS=build/tools/buf

find_buf() {
  local installed=$TOOLS/node_modules/.bin/buf
  if [[ -n "${BUF:-}" ]]; then
    echo "$BUF"
  elif command -v buf; then
    return
  else
    if [[ "$("$installed" --version 2>/dev/null)" != "$BUF_VERSION" ]]; then
      install_buf >&2
    fi
    echo "$installed"
  fi
}

install_buf() {
  if ! command -v npm >/dev/null; then
    echo "buf.sh: no buf and no npm; install npm, or set BUF to a buf binary"
    exit 1
  fi
  mkdir -p "$TOOLS"
  npm install --silent --no-audit --no-fund --no-save --prefix "$TOOLS" \
    "@bufbuild/buf@$BUF_VERSION"
}

has_commit() { git rev-parse --quiet --verify "$1^{commit}" >/dev/null; }

# Prints the commit whose schema must not be broken; nothing if there is none.
find_base() {
  local branch fork
  git rev-parse --git-dir >/dev/null 2>&1 || return 0
  has_commit HEAD || return 0
  for branch in origin/main main; do
    has_commit "$branch" || continue
    fork=$(git merge-base HEAD "$branch" || true)
    if [[ -n "$fork" && "$fork" != "$(git rev-parse HEAD)" ]]; then
      echo "$fork"
      return
    fi
  done
  if ! git diff --quiet HEAD -- "$SCHEMA"; then
    git rev-parse HEAD
    return
  fi
  git rev-list --max-count=2 HEAD -- "$SCHEMA" | sed -n 2p
}

# Lays the schema of a commit into a folder; fails if it had none.
extract() {
  local commit=$1 folder=$2
  rm -rf "$folder"
  mkdir -p "$folder"
  [[ -n "$(git ls-tree "$commit" -- "$SCHEMA")" ]] || return 1
  git archive "$commit" -- "$SCHEMA" | tar -x -C "$folder"
}

main() {
  local buf base
  buf=$(find_buf)
  if [[ "${1:-}" == --path ]]; then
    echo "$buf"
    return
  fi
  echo "buf.sh: lint"
  "$buf" lint proto
  base=$(find_base)
  if [[ -z "$base" ]] || ! extract "$base" "$TOOLS/base"; then
    echo "buf.sh: no earlier schema in this repository; linted only"
    return
  fi
  echo "buf.sh: breaking changes against $(git log -1 --format='%h %s' "$base")"
  "$buf" breaking proto --against "$TOOLS/base/proto"
  echo "buf.sh: the schema is clean and breaks nothing"
}

main "$@"
