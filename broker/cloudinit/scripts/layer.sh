#!/bin/sh
# Runs one layer of the first boot, and keeps how it ended where the agent reads it.
# usage: layer run|ended NAME
set -euf
PATH=/usr/sbin:/usr/bin:/sbin:/bin
name=$2
etc=/etc/hostler-bootstrap
state=/var/lib/hostler-bootstrap
record=$state/layers/$name

keep() {
    rm -f "$record.new"
    printf '%s\n%s\n' "$1" "$2" >"$record.new"
    sync "$record.new"
    mv -fT "$record.new" "$record"
}

# fail MESSAGE: for the layers.
fail() {
    echo "hostler: layer $name: $*" >&2
    rm -f "$record.said"
    printf '%s\n' "$*" >"$record.said"
    exit 1
}

# A tenant may have put links here, and this writes as root at every boot.
[ ! -h "$state/layers" ] || { echo "hostler: layer $name: $state/layers is a link, and not what was laid out" >&2; exit 1; }
mkdir -p "$state/layers"
case $1 in
run)
    if [ "$name" != roce ] && [ "$(head -n 1 "$record" 2>/dev/null || :)" = done ]; then
        exit 0
    fi
    rm -f "$record.said"
    echo "hostler: layer $name begins"
    . "$etc/layer-$name"
    keep done ''
    echo "hostler: layer $name is done"
    ;;
ended)
    [ "${SERVICE_RESULT:-success}" != success ] || exit 0
    said="it ended by ${SERVICE_RESULT} ${EXIT_STATUS:-}"
    [ ! -s "$record.said" ] || said=$(head -c 300 "$record.said" | head -n 1)
    keep failed "$said"
    echo "hostler: layer $name failed: $said"
    ;;
esac
