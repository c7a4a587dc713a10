#!/bin/sh
# Hostler, first boot: lays out what the part hostler-data beside this one holds,
# whole or not at all, and starts it. It runs at every boot, so that one that was
# cut short goes on; what is laid out already is left alone. It holds no value.
set -euf
PATH=/usr/sbin:/usr/bin:/sbin:/bin
data=${0%/*}/../scripts/hostler-data
state=/var/lib/hostler-bootstrap

say() {
    echo "hostler: $*"
    { echo "hostler: $*" >/dev/console; } 2>/dev/null || :
}

[ -s "$data" ] || { say "cannot lay out the first boot: $data is not there"; exit 1; }
{ read -r _; read -r kind version id; } <"$data"
[ "$kind $version" = "bundle 1" ] || { say "cannot lay out the first boot: $data is of another version"; exit 1; }
[ "$(tail -n 1 "$data")" = "end $id" ] || { say "cannot lay out the first boot: $data was cut off"; exit 1; }
if [ "$(cat "$state/laid-out" 2>/dev/null || :)" = "$id" ]; then
    # A reset right after the enrolment may have kept the token that was used.
    token=/etc/hostler-agent/enroll.token
    if [ -e "$state/done" ] && [ -e "$token" ] && grep '^|hsn_' "$data" | cut -c 2- | cmp -s - "$token"; then
        shred --force --iterations=1 --remove "$token"
    fi
    exit 0
fi
# The agent strikes the token out once it was used: then there is nothing to do.
grep -q '^|hsn_' "$data" || exit 0

say "laying out the first boot"
umask 022
mkdir -p "$state"
chmod 0700 "$state"
rm -rf "$state/done" "$state/layers"

path=
end_file() {
    [ -n "$path" ] || return 0
    exec 3>&-
    mv -f "$path.hostler" "$path"
    path=
}
units=
while IFS= read -r line; do
    case $line in
    '|'*) printf '%s\n' "${line#?}" >&3 ;;
    'file '*)
        end_file
        set -- $line
        mkdir -p "${3%/*}"
        rm -f "$3.hostler"
        (umask 077 && : >"$3.hostler")
        chmod "$2" "$3.hostler"
        path=$3
        exec 3>"$path.hostler"
        ;;
    'link '*)
        end_file
        set -- $line
        mkdir -p "${2%/*}"
        ln -sfn "$3" "$2"
        ;;
    'start '*) units="$units ${line#start }" ;;
    esac
done <"$data"
end_file
sync
printf '%s\n' "$id" >"$state/laid-out.new"
mv -f "$state/laid-out.new" "$state/laid-out"

# From here on systemd would do it at the next boot as well.
systemctl daemon-reload
systemctl start --no-block $units
