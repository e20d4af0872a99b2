#!/usr/bin/env bash
# Runs the contract tests against a native core that is built with a sanitizer.
#
#     tests/contract/sanitize.sh asan [pytest options]   AddressSanitizer, UndefinedBehaviorSanitizer
#     tests/contract/sanitize.sh tsan [pytest options]   ThreadSanitizer
#
# The instrumented core goes into a package of its own, build/<sanitizer>, which links to the sources.
# The core in src/ stays as it is, and programs that the tests start get the instrumented one, too.
set -eu
cd "$(dirname "$0")/../.."
sanitizer=$1
shift
python=$PWD/.venv/bin/python
folder=$PWD/build/$sanitizer

case $sanitizer in
asan)
    flags="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
    # CPython never frees what lives as long as the process.
    export ASAN_OPTIONS="detect_leaks=0:log_path=$folder/report"
    export UBSAN_OPTIONS="print_stacktrace=1:log_path=$folder/report"
    runtime=libasan.so
    selected=()
    ;;
tsan)
    # gcc warns of the fences in log.c, which it does not model. What they order is atomic by itself.
    flags="-fsanitize=thread -Wno-tsan"
    export TSAN_OPTIONS="halt_on_error=1:exitcode=66:log_path=$folder/report"
    runtime=libtsan.so
    selected=(-m threaded)
    ;;
*)
    echo "unknown sanitizer: $sanitizer (choose asan or tsan)" >&2
    exit 2
    ;;
esac

# gcc prints a name as it was given if it has no such file.
library=$(gcc -print-file-name=$runtime 2>/dev/null || true)
if [ ! -e "$library" ]; then
    echo "== $runtime not found: install gcc with its sanitizer libraries. Tests under $sanitizer did NOT run." >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
fi

rm -rf "$folder/stepscope" "$folder"/report.*
mkdir -p "$folder"
STEPSCOPE_WERROR=1 STEPSCOPE_REQUIRE_NATIVE=1 CC=gcc CFLAGS="$flags -g -fno-omit-frame-pointer" \
    "$python" setup.py -q build_ext --build-lib "$folder/lib" --build-temp "$folder/temp"
cp -rs "$PWD/src/stepscope" "$folder/stepscope"
rm -f "$folder"/stepscope/record/_native*.so
cp "$folder"/lib/stepscope/record/_native*.so "$folder/stepscope/record/"

# torch throws C++ exceptions: the sanitizer has to find libstdc++ as it starts.
preload="$library $(gcc -print-file-name=libstdc++.so)"
# ThreadSanitizer cannot place its shadow memory where addresses are randomised by more bits than it
# knows; -R switches that off for this process and its children.
failed=0
STEPSCOPE_SANITIZER=$sanitizer PYTHONPATH=$folder LD_PRELOAD=$preload \
    setarch -R "$python" -m pytest tests/contract -p no:cacheprovider "${selected[@]}" "$@" || failed=$?

# pytest captures what a process prints, and some tests end processes on purpose: reports are files.
for report in "$folder"/report.*; do
    [ -e "$report" ] || continue
    cat "$report" >&2
    failed=1
done
exit $failed
