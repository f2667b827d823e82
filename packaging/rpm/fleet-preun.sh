if [ "$1" -eq 0 ] && [ -x /usr/bin/systemctl ]; then
    systemctl --no-reload disable --now whyslow-fleet-compact >/dev/null 2>&1 || :
fi
