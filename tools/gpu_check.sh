#!/usr/bin/env bash
# Everything that needs a GPU, in one call of under eight minutes: the tests, compute-sanitizer over a
# small selection of them, the C++ example, the ladder and the benchmark. `make gpu-check` runs it.
#
# Prints a table of the steps and exits 1 if one failed. Writes the table, with the device, the versions
# and the commit, to benchmarks/results/gpu_check.md; the steps' logs lie in build/gpu_check.
#
#   PY=python3 tools/gpu_check.sh [STEP...]     only these: pytest memcheck racecheck synccheck
#                                               example ladder bench
#
# COMMIT names the commit where there is no git checkout to ask.

set -uo pipefail
cd "$(dirname "$0")/.."

PY=${PY:-python3}
LOGS=build/gpu_check
RESULTS=benchmarks/results
LIMIT_SECONDS=${LIMIT_SECONDS:-470}
mkdir -p "$LOGS" "$RESULTS"

if ! "$PY" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  echo "gpu-check: $PY sees no CUDA device" >&2
  exit 1
fi

steps=("$@")
rows=()
failed=0
started=$SECONDS

wanted() {
  [[ ${#steps[@]} -eq 0 || " ${steps[*]} " == *" $1 "* ]]
}

row() { # name result seconds remark
  rows+=("| $1 | $2 | $3 | $4 |")
  printf '%-10s %-7s %4s s  %s\n' "$1" "$2" "$3" "$4"
}

# step NAME SECONDS COMMAND...: runs it under its own limit and what is left of the whole one.
step() {
  local name=$1 limit=$2 log="$LOGS/$1.log" from=$SECONDS status=0 remark
  shift 2
  wanted "$name" || return 0
  local left=$((LIMIT_SECONDS - (SECONDS - started)))
  if ((left < 5)); then
    row "$name" FAILED 0 "no time left of $LIMIT_SECONDS s"
    failed=1
    return
  fi
  ((limit > left)) && limit=$left
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1 || status=$?
  # The last line that says something: pytest's count, the sanitizer's, the program's verdict.
  remark=$(grep -E 'passed|failed|ERROR SUMMARY|hazards|agree|won|ratio' "$log" | tail -n 1 |
    tr -d '|=' | tr -s ' ' | cut -c 1-100)
  if ((status == 0)); then
    row "$name" passed $((SECONDS - from)) "$remark"
    return
  fi
  ((status == 124 || status == 137)) && remark="stopped after $limit s; $remark"
  row "$name" FAILED $((SECONDS - from)) "exit $status; $remark"
  tail -n 25 "$log" | sed 's/^/    /'
  failed=1
}

example() {
  local prefix
  prefix=$("$PY" -c 'import torch, torch_reduce as g
print(torch.utils.cmake_prefix_path, g.cmake_prefix_path, sep=";")') || return
  cmake -S examples/libtorch -B build/example -DCMAKE_PREFIX_PATH="$prefix" &&
    cmake --build build/example --parallel &&
    build/example/lookup &&
    build/example/reduce --device cuda
}
export -f example
export PY

# What runs on the GPU; the CPU's half of the tests and those that build are the other machines' work.
parallel=()
"$PY" -c 'import xdist' 2>/dev/null && parallel=(-n "$(($(nproc) > 4 ? $(nproc) - 2 : 2))")
step pytest 300 "$PY" -m pytest -q "${parallel[@]}" -k cuda tests \
  --ignore tests/test_packaging.py --ignore tests/test_add_a_reduction.py --ignore tests/test_readme.py

for tool in memcheck racecheck synccheck; do
  wanted "$tool" || continue
  if ! command -v compute-sanitizer >/dev/null; then
    row "$tool" skipped 0 "no compute-sanitizer in PATH"
    continue
  fi
  # Without torch's caching allocator every tensor is an allocation of its own, so that memcheck sees
  # a read past its end. xdist and plugins that start processes would only slow the sanitizer down.
  step "$tool" 90 env PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool "$tool" \
    --error-exitcode 9 "$PY" -m pytest -q -p no:xdist tests/test_sanitizer_selection.py
done

step example 90 bash -c example
step ladder 90 "$PY" -m benchmarks.ladder --quick --counters
step bench 120 "$PY" -m benchmarks.bench --quick

{
  echo "# gpu-check"
  echo
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader |
    sed -E 's/^(.*), (.*)$/* device: \1, driver \2/'
  "$PY" - <<'PYTHON'
import platform
import torch, torch_reduce
info = torch_reduce.build_info()
print(f"* torch {torch.__version__}, Python {platform.python_version()}")
print(f"* gpureduce {info['gpureduce']}, nvcc {info['cuda']}, {' '.join(info['arch_list'])}, "
      f"{info['compiler']}")
PYTHON
  echo "* commit: ${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}"
  echo "* date: $(date -u +%Y-%m-%d)"
  echo
  echo "| step | result | seconds | |"
  echo "|---|---|---:|---|"
  printf '%s\n' "${rows[@]}"
} >"$RESULTS/gpu_check.md"

echo "gpu-check: $( ((failed)) && echo FAILED || echo passed) in $((SECONDS - started)) s, see $RESULTS/gpu_check.md"
exit "$failed"
