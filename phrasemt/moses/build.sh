#!/usr/bin/env bash
# Builds the Moses of the family `moses`: phrasemt/moses/build.sh FOLDER writes FOLDER/bin, FOLDER/scripts and FOLDER/VERSION.
# With --with-packages first, it installs the packages of Debian that it needs (as root). JOBS compilers run at a time (default 1).
# One core needs 15 to 25 minutes; a stopped build goes on where it was.
#
# The sources are mosesdecoder (LGPL 2.1, with KenLM and bjam in it) and fast_align (Apache 2.0). They come from
# $PHRASEMT_MIRROR/moses/moses-src.tar.xz, with verified checksum, or from GitHub by the ids of the commits, which Git verifies.
set -euo pipefail

MOSES_COMMIT=34452895f350bf097b21ee514a529a1dc542243c
ALIGN_COMMIT=cab1e9aac8d3bb02ff5ae58218d8d225a039fa11
ARCHIVE_SHA256=f085d684a663331cf8c57074fa856479eee00d9ae7128cd0a9ceb02b00e1b683

PACKAGES=(g++ make cmake perl git ca-certificates xz-utils libboost-dev libboost-thread-dev libboost-system-dev libboost-program-options-dev
  libboost-filesystem-dev libboost-iostreams-dev libboost-serialization-dev libboost-test-dev libbz2-dev zlib1g-dev liblzma-dev)

# Targets of bjam, as folder//program. mert-moses.pl refuses to start unless all of its five helpers are there.
PROGRAMS=(moses-cmd//moses symal//symal
  phrase-extract//extract phrase-extract//score phrase-extract//consolidate
  phrase-extract/lexical-reordering//lexical-reordering-score
  lm//build_binary lm//query lm/builder//lmplz
  mert//mert mert//kbmira mert//pro mert//extractor mert//evaluator)
SCRIPTS=(training generic recaser tokenizer share)

fail() {
  echo "phrasemt/moses/build.sh: $*" >&2
  exit 2
}

if [ "${1:-}" = --with-packages ]; then
  apt-get update
  apt-get install --yes --no-install-recommends "${PACKAGES[@]}"
  shift
fi
[ $# = 1 ] || fail "expected one folder. Next: phrasemt/moses/build.sh FOLDER"
folder=$(readlink --canonicalize-missing "$1")
jobs=${JOBS:-1}
source=$folder/source

check_packages() {
  local probe
  probe=$(mktemp -d)
  # Static Boost needs its test library, which the build probes; without it the build silently takes shared libraries.
  echo '#include <boost/thread.hpp>
#include <boost/iostreams/stream.hpp>
#include <boost/program_options.hpp>
#include <boost/test/unit_test.hpp>
#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
int main() {}' > "$probe/probe.cc"
  if ! { command -v g++ make cmake perl > /dev/null &&
    g++ "$probe/probe.cc" -o "$probe/probe" -static-libgcc -Wl,-Bstatic -lboost_unit_test_framework -lboost_serialization \
      -lboost_filesystem -lboost_iostreams -lboost_program_options -lboost_thread -lboost_system -Wl,-Bdynamic \
      -lbz2 -llzma -lz -lpthread 2> "$probe/errors"; }; then
    head -n 3 "$probe/errors" >&2 || true
    rm -r "$probe"
    fail "compilers or libraries are missing. Next: apt-get install --no-install-recommends ${PACKAGES[*]}"
  fi
  rm -r "$probe"
}

fetch_commit() { # repository, commit, folder
  git init --quiet "$3"
  git -C "$3" fetch --quiet --depth 1 "https://github.com/$1.git" "$2"
  git -C "$3" -c advice.detachedHead=false checkout --quiet FETCH_HEAD
  [ "$(git -C "$3" rev-parse HEAD)" = "$2" ] || fail "$1: expected commit $2, found $(git -C "$3" rev-parse HEAD)"
}

fetch_sources() {
  local archive=${PHRASEMT_MIRROR:+$PHRASEMT_MIRROR/moses/moses-src.tar.xz} new=$folder/source.part sum
  rm -rf "$new"
  mkdir -p "$new"
  if [ -n "$archive" ] && [ -f "$archive" ]; then
    sum=$(sha256sum "$archive" | cut -d ' ' -f 1)
    [ "$sum" = $ARCHIVE_SHA256 ] ||
      fail "$archive: expected sha256 $ARCHIVE_SHA256, found $sum. Next: replace the file, or unset PHRASEMT_MIRROR"
    tar --extract --file "$archive" --directory "$new" --strip-components 1
  else
    fetch_commit moses-smt/mosesdecoder $MOSES_COMMIT "$new"
    fetch_commit clab/fast_align $ALIGN_COMMIT "$new/fast_align"
  fi
  mv "$new" "$source"
}

# Most of the time goes into headers of Boost, which nearly all files include; precompiled, they halve it.
precompile() {
  cat > "$source/precompiled.h" << 'HEADER'
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <list>
#include <map>
#include <queue>
#include <set>
#include <sstream>
#include <string>
#include <vector>
#include <boost/algorithm/string.hpp>
#include <boost/functional/hash.hpp>
#include <boost/scoped_ptr.hpp>
#include <boost/shared_ptr.hpp>
#include <boost/thread.hpp>
#include <boost/thread/shared_mutex.hpp>
#include <boost/unordered_map.hpp>
#include <boost/unordered_set.hpp>
HEADER
  # The flags of bjam's release build. With other flags, GCC would read the header itself, which is slower and right, too.
  g++ -std=c++11 -O3 -finline-functions -ftemplate-depth=128 -pthread -Wno-deprecated -w -DNDEBUG -DWITH_THREADS -D_FILE_OFFSET_BITS=64 \
    -D_LARGE_FILES -x c++-header "$source/precompiled.h" -o "$source/precompiled.h.gch"
  # Not as CXXFLAGS, which bjam's many probes of the compiler would use, too.
  sed -i '/^requirements += <cxxflags>-std=c++0x/a requirements += <cxxflags>-includeprecompiled.h ;' "$source/Jamroot"
}

build() {
  # These variables and files of a user would change the build.
  unset BOOST_ROOT CMPH_ROOT IRSTLM_ROOT XMLRPC_C_ROOT BOOST_BUILD_PATH
  export HOME=$source LC_ALL=C
  cd "$source"
  [ -f precompiled.h.gch ] || precompile
  ./bjam -j"$jobs" -q --no-xmlrpc-c --without-tcmalloc --without-libsegfault --max-kenlm-order=6 "${PROGRAMS[@]}"
  cmake -S fast_align -B fast_align/build -DCMAKE_BUILD_TYPE=Release
  cmake --build fast_align/build --parallel "$jobs"
}

install_programs() {
  local new=$folder/new program found
  rm -rf "$new"
  mkdir -p "$new/bin" "$new/scripts"
  for program in "${PROGRAMS[@]}"; do
    found=$(find "${program%%//*}/bin" -type f -name "${program##*//}" -perm -u+x -print -quit)
    [ -n "$found" ] || fail "the build made no ${program##*//}. Next: see the messages above, then run again"
    install --strip --mode 755 "$found" "$new/bin/"
  done
  install --strip --mode 755 fast_align/build/fast_align fast_align/build/atools "$new/bin/"
  for found in "${SCRIPTS[@]}"; do cp --archive "scripts/$found" "$new/scripts/"; done
  rm -rf "$folder/bin" "$folder/scripts"
  mv "$new/bin" "$new/scripts" "$folder/"
  printf 'mosesdecoder %s\nfast_align %s\n' $MOSES_COMMIT $ALIGN_COMMIT > "$folder/VERSION"
  rm -r "$new"
}

check_packages
mkdir -p "$folder"
[ -d "$source" ] || fetch_sources
build
install_programs
cd "$folder"
rm -rf "$source"
echo "Moses is in $folder. Next: export PHRASEMT_MOSES=$folder"
