#!/bin/bash
# bench/fleet/engines.sh [HOSTS]: writes two stores, one of them hostile, and compares what the embedded engine and Trino answer about them.
# Runs under trino.sh, which starts what it needs: bench/fleet/trino.sh /var/tmp/trino bench/fleet/engines.sh 300
set -euo pipefail

bin=${BIN:-target/release}

# compare NAME ARGUMENT…: makes a store of this name and its tables, and compares.
compare() {
    local store=$TRINO_DIR/buckets/metrics/$1
    rm -rf "$store"
    "$bin/bench-fleet" store "$store" --recording "$TRINO_DIR/recording" "${@:2}"
    $TRINO_CLI --execute "$("$bin/whyslow-fleet" tables --ddl trino --location "s3://metrics/$1" --schema "hive.$1")" >/dev/null
    "$bin/bench-fleet" engines --store "s3://metrics/$1" --engine "${WHYSLOW_FLEET_ENGINE/hive\/v1/hive/$1}" --runs "${RUNS:-1}"
}

[ -e "$TRINO_DIR/recording" ] || "$bin/whyslow" record --for 3m --dir "$TRINO_DIR/recording" >/dev/null
compare fleet --hosts "${1:-300}"
compare hostile --hosts 30 --hostile
