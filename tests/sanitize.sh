#!/bin/sh
# Runs the kernel's tests with its C under AddressSanitizer and UndefinedBehaviorSanitizer.
# Usage: tests/sanitize.sh [PYTEST-OPTION...]   Environment: PYTHON (python), CC (gcc).
#
# TensorFlow is left out: it does not run under a preloaded sanitizer. Arrow takes its memory from
# malloc, so that the sanitizer knows where each buffer ends.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python}
cc=${CC:-gcc}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

cp -R "$root/tfrec_cli" "$root/pyproject.toml" "$place"
mkdir "$place/tests"
cp "$root"/tests/conftest.py "$root"/tests/test_kernel*.py "$place/tests"
rm -f "$place"/tfrec_cli/_kernel/*.so
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
"$cc" -shared -fPIC -std=c11 -O1 -g -Wall -Wextra -Werror -fno-omit-frame-pointer \
    -fsanitize=address,undefined -fno-sanitize-recover=undefined "-I$include" \
    "$root/tfrec_cli/_kernel/_native.c" -o "$place/tfrec_cli/_kernel/_native.abi3.so"

cd "$place"
LD_PRELOAD=$("$cc" -print-file-name=libasan.so) \
    ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc ARROW_DEFAULT_MEMORY_POOL=system \
    TFREC_KERNEL=native PYTHONPATH="$place" \
    "$python" -m pytest -q --capture=sys -p no:cacheprovider -k "not tensorflow and not wheel" "$@" tests
