#!/bin/bash
# bench/fleet/trino.sh DIR COMMAND…: runs a command beside an object store (versitygw over DIR/buckets) and a Trino cluster, a coordinator
# and two workers, all on loopback and with files in DIR only; then ends them. README.md says what it needs.
#
# The command gets WHYSLOW_FLEET_ENGINE (schema hive.v1, without tables), AWS_*, TRINO_CLI, TRINO_DIR, and in DIR/worker-1.pid and
# worker-2.pid what can be killed; engines.sh is such a command. Needs mvn, go, and Java 24 or newer in JAVA_HOME; the first run downloads 850 MB.
#
# With TRINO_TLS=1, the engine is asked over TLS and for a password, which TRINO_PASSWORD and SSL_CERT_FILE tell the command (also needs openssl).
set -euo pipefail

TRINO=476
VERSITYGW=v1.8.0
HEAP=${TRINO_HEAP:-1300M}
BASE=${TRINO_PORT:-7480}
S3_PORT=$((BASE - 10))

fail() { echo "trino.sh: $*" >&2; exit 2; }

[ $# -ge 2 ] || fail "usage: trino.sh DIR COMMAND…"
mkdir -p "$1"
dir=$(realpath "$1")
shift
cache=${XDG_CACHE_HOME:-$HOME/.cache}/whyslow-trino
java=${JAVA_HOME:-/usr/lib/jvm/temurin-25-jdk-amd64}/bin/java
version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p') || true
[ "${version:-0}" -ge 24 ] || fail "Trino $TRINO needs Java 24 or newer: set JAVA_HOME"

# get ARTIFACT: puts a file of Maven Central into the cache.
get() { mvn -q -B dependency:copy -Dartifact="io.trino:$1" -DoutputDirectory="$cache" -Dmdep.useBaseVersion=true >&2; }

home=$cache/trino-server-$TRINO
if [ ! -e "$home/needed/password-authenticators" ]; then
    rm -rf "$home"
    get "trino-server:$TRINO:tar.gz"
    mkdir -p "$home"
    tar -xzf "$home.tar.gz" -C "$home" --strip-components=1
    # Every plugin is loaded at each start. Their files are links to one another, so that all have to be unpacked first.
    mkdir -p "$home/needed"
    mv "$home/plugin/hive" "$home/plugin/exchange-filesystem" "$home/plugin/password-authenticators" "$home/needed"
    rm -r "$home.tar.gz" "$home/plugin"
fi
cli=$cache/trino-cli-$TRINO-executable.jar
[ -e "$cli" ] || get "trino-cli:$TRINO:jar:executable"
[ -x "$cache/versitygw" ] || GOBIN=$cache go install "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW"

export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=secretsecret AWS_REGION=us-east-1
export AWS_ENDPOINT_URL=http://127.0.0.1:$S3_PORT AWS_ALLOW_HTTP=true
export WHYSLOW_FLEET_ENGINE=trino://whyslow@127.0.0.1:$BASE/hive/v1
export TRINO_DIR=$dir
export TRINO_CLI="$java --enable-native-access=ALL-UNNAMED -jar $cli --server http://127.0.0.1:$BASE --user whyslow"

secure=
if [ -n "${TRINO_TLS:-}" ]; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext basicConstraints=critical,CA:FALSE \
        -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$dir/key.pem" -out "$dir/certificate.pem" 2>"$dir/openssl.log" || fail "no certificate: see $dir/openssl.log"
    cat "$dir/key.pem" "$dir/certificate.pem" >"$dir/tls.pem"
    TRINO_PASSWORD=$(openssl rand -hex 16)
    salt=$(openssl rand -hex 16)
    hash=$(openssl kdf -keylen 64 -kdfopt digest:SHA1 -kdfopt "pass:$TRINO_PASSWORD" -kdfopt "hexsalt:$salt" -kdfopt iter:1000 PBKDF2)
    echo "whyslow:1000:$salt:$(tr -d ':' <<<"$hash" | tr A-F a-f)" >"$dir/password.db"
    export TRINO_PASSWORD SSL_CERT_FILE=$dir/certificate.pem
    WHYSLOW_FLEET_ENGINE="trino://whyslow@localhost:$((BASE + 3))/hive/v1?SSL=true"
    # Nodes talk to each other, and the client of this script to the coordinator, without TLS.
    secure="http-server.https.enabled=true
http-server.https.port=$((BASE + 3))
http-server.https.keystore.path=$dir/tls.pem
http-server.authentication.type=PASSWORD
http-server.authentication.allow-insecure-over-http=true"
fi

pids=()
finish() {
    kill "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
}
trap finish EXIT
trap 'exit 130' INT TERM

# node NAME PORT: starts a node of the cluster.
node() {
    local etc=$dir/$1/etc
    mkdir -p "$etc/catalog" "$dir/exchange"
    cat >"$etc/config.properties" <<CONFIG
coordinator=$([ "$1" = coordinator ] && echo true || echo false)
$([ "$1" = coordinator ] && echo node-scheduler.include-coordinator=false)
http-server.http.port=$2
discovery.uri=http://127.0.0.1:$BASE
plugin.dir=$home/needed
memory.heap-headroom-per-node=250MB
query.max-memory-per-node=700MB
# A worker that dies costs its tasks, not the query.
retry-policy=TASK
task-retry-attempts-per-task=4
retry-initial-delay=1s
retry-max-delay=5s
query.remote-task.max-error-duration=10s
fault-tolerant-execution-task-memory=400MB
$([ "$1" = coordinator ] && echo fault-tolerant-execution-coordinator-task-memory=200MB)
CONFIG
    if [ -n "$secure" ]; then
        echo "internal-communication.shared-secret=$TRINO_PASSWORD" >>"$etc/config.properties"
        if [ "$1" = coordinator ]; then
            echo "$secure" >>"$etc/config.properties"
            printf 'password-authenticator.name=file\nfile.password-file=%s/password.db\n' "$dir" >"$etc/password-authenticator.properties"
        fi
    fi
    cat >"$etc/exchange-manager.properties" <<CONFIG
exchange-manager.name=filesystem
exchange.base-directories=$dir/exchange
CONFIG
    cat >"$etc/catalog/hive.properties" <<CONFIG
connector.name=hive
hive.metastore=file
hive.metastore.catalog.dir=s3://metastore/
hive.partition-projection-enabled=true
hive.parquet.time-zone=UTC
fs.native-s3.enabled=true
s3.endpoint=$AWS_ENDPOINT_URL
s3.region=$AWS_REGION
s3.path-style-access=true
s3.aws-access-key=$AWS_ACCESS_KEY_ID
s3.aws-secret-key=$AWS_SECRET_ACCESS_KEY
CONFIG
    echo io.trino=WARN >"$etc/log.properties"
    (cd "$dir/$1" && exec "$java" -server "-Xmx$HEAP" -XX:+UseG1GC -XX:+ExitOnOutOfMemoryError -XX:ReservedCodeCacheSize=256M \
        -XX:-OmitStackTraceInFastThrow -Djdk.attach.allowAttachSelf=true -XX:+EnableDynamicAgentLoading \
        --add-modules=jdk.incubator.vector --enable-native-access=ALL-UNNAMED --sun-misc-unsafe-memory-access=allow \
        -Duser.timezone=UTC -Dfile.encoding=UTF-8 -cp "$home/lib/*" \
        -Dnode.environment=bench -Dnode.id="$1" -Dnode.data-dir="$dir/$1/data" -Dnode.bind-ip=127.0.0.1 \
        -Dnode.internal-address=127.0.0.1 -Dlog.levels-file=etc/log.properties -Dlog.enable-console=true \
        -Dconfig=etc/config.properties io.trino.server.TrinoServer) >"$dir/$1.log" 2>&1 &
    pids+=($!)
    echo $! >"$dir/$1.pid"
}

mkdir -p "$dir/buckets/metastore" "$dir/buckets/metrics"
ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY \
    "$cache/versitygw" --port "127.0.0.1:$S3_PORT" posix "$dir/buckets" >"$dir/versitygw.log" 2>&1 &
pids+=($!)
node coordinator "$BASE"
node worker-1 $((BASE + 1))
node worker-2 $((BASE + 2))

ready="SELECT 'ready' FROM system.runtime.nodes WHERE state = 'active' HAVING COUNT(*) = 3"
for _ in $(seq 60); do
    for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || fail "a server has ended: see $dir/*.log"; done
    [ "$($TRINO_CLI --execute "$ready" 2>/dev/null)" = '"ready"' ] && break
    sleep 2
done
$TRINO_CLI --execute 'SELECT 1' >/dev/null || fail "Trino does not answer: see $dir/*.log"

# In the background, so that a signal ends it and the servers at once.
"$@" <&0 &
pids+=($!)
wait $!
