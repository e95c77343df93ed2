#!/usr/bin/env bash
# The first minutes on a GPU: tests/gpu/check.sh first|second|kernels (README.md). Each part is a process of its own with
# a limit in seconds, because an error on a GPU spoils all that its process does afterwards. From the environment: PYTHON,
# OUT (a folder for figures and logs), and DEV=cpu to run all of it small on a CPU.
set -uo pipefail
cd "$(dirname "$0")/../.."
export PHRASEMT_COMPILE=off # but for the part `compiled`
export PYTHONPATH="$PWD:$PWD/tests/helpers:$PWD/tests/benchmarks:${PYTHONPATH:-}" PYTHONUNBUFFERED=1
mkdir -p "${OUT:=results/gpu}"
[ "${DEV:-}" != cpu ] || export CUDA_VISIBLE_DEVICES=
[[ ${1:-} =~ ^(first|second|kernels)$ ]] || { echo "usage: tests/gpu/check.sh first|second|kernels" && exit 2; }
failed=0

part() { # name, seconds, program, its argument
  local code=0 seconds=$2
  [ "${DEV:-}" != cpu ] || seconds=1000
  RESULTS=$OUT/$1.json timeout --kill-after=5 "$seconds" "${PYTHON:-python3}" "tests/gpu/$3.py" "${@:4}" || code=$?
  echo "== $1: exit code $code"
  [ $code = 0 ] || failed=$code
}

{
  case $1 in
    first)
      part constants 30 speed constants
      part differences 130 differences
      part updates 200 speed updates
      ;;
    second)
      part compiled 180 speed compiled
      part searches 90 speed searches
      part training 90 end_to_end
      ;;
    kernels) DEV=cpu CUDA_VISIBLE_DEVICES='' part kernels 100 kernels ;;
  esac
  exit $failed
} 2>&1 | tee "$OUT/$1.log"
