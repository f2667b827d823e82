if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    [ "$1" -eq 0 ] || systemctl try-restart whyslow-record whyslow-exporter whyslow-serve whyslow-ship || :
fi
