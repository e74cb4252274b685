#!/usr/bin/env bash
# compare.sh REF: the micro benchmarks of a commit and of the working tree, a run of each in turn so
# that a noisy machine disturbs both alike, and what benchstat says of them.
set -euo pipefail
cd "$(dirname "$0")/.."
ref=$1
go=${GO:-go}
package=${PKG:-./...}
benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
out=$PWD/bench/out/compare
mkdir -p "$out"
tree=$(mktemp -d)
trap 'git worktree remove --force "$tree" 2>/dev/null || true; rm -rf "$tree"' EXIT
git worktree add --quiet --detach "$tree" "$ref"
: >"$out/old.txt"
: >"$out/new.txt"
for run in $(seq "${COUNT:-10}"); do
  echo "run $run of ${COUNT:-10}" >&2
  (cd "$tree" && "$go" test -run '^$' -bench "${RE:-.}" -benchmem $package) >>"$out/old.txt"
  "$go" test -run '^$' -bench "${RE:-.}" -benchmem $package >>"$out/new.txt"
done
"$go" run "$benchstat" "old=$out/old.txt" "new=$out/new.txt"
