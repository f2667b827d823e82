# Changes that were left unfinished, or not confirmed in time, would never be rolled back without the program. One that still waits for
# confirmation has a process of its own, which outlives the program.
if [ "$1" -eq 0 ]; then
    [ ! -e /var/lib/whyslow/tune/journal.jsonl ] || whyslow tune recover || :
    [ ! -x /usr/bin/systemctl ] || systemctl --no-reload disable --now whyslow-record whyslow-exporter whyslow-serve whyslow-ship whyslow-recover >/dev/null 2>&1 || :
fi
