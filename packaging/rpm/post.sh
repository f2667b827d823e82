# Nothing records or exports before it is asked to; an unconfirmed change is rolled back at boot.
if [ -x /usr/bin/systemctl ]; then
    [ "$1" -gt 1 ] || systemctl --no-reload enable whyslow-recover.service >/dev/null 2>&1 || :
    [ ! -d /run/systemd/system ] || systemctl daemon-reload || :
fi
