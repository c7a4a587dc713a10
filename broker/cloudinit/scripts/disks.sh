# Makes a file system on each extra disk and mounts it as /shareN. Every disk is
# looked at before any is touched, and one that is not as expected spares them all.
overwrite=no
[ ! -e "$etc/disks-overwrite" ] || overwrite=yes
marks=$state/disks
mkdir -p "$marks"

# find_disk SERIAL: the one whole disk with that serial.
find_disk() {
    found=$(lsblk --nodeps --noheadings --paths --raw --output NAME,TYPE,SERIAL | while read -r disk type has; do
        [ "$type $has" != "disk $1" ] || echo "$disk"
    done)
    case $found in
    '') fail "there is no disk with serial $1" ;;
    *[!A-Za-z0-9/_-]*) fail "more than one disk has serial $1" ;;
    esac
    echo "$found"
}

# in_use DISK: mounted, swapped to, or held, itself or any part of it.
in_use() {
    [ -n "$(lsblk --noheadings --raw --output MOUNTPOINT "$1" | tr -d ' \n')" ] && return 0
    [ "$(lsblk --noheadings --raw --output TYPE "$1" | grep -cvx -e disk -e part)" -eq 0 ] || return 0
    set +f
    for holder in /sys/class/block/"${1##*/}"/holders/* /sys/class/block/"${1##*/}"/*/holders/*; do
        [ ! -e "$holder" ] || { set -f; return 0; }
    done
    set -f
    return 1
}

while read -r number serial size; do
    disk=$(find_disk "$serial") || fail "$(cat "$record.said")"
    has=$(blockdev --getsize64 "$disk")
    [ "$has" = "$size" ] || fail "disk $serial ($disk) has $has bytes, and not the $size that MAAS found"
    [ ! -e "$marks/$serial.done" ] || continue
    ! in_use "$disk" || fail "disk $serial ($disk) is mounted or held"
    # One that we began with carries a signature of our own.
    [ ! -e "$marks/$serial" ] || continue
    known=$(wipefs --noheadings --parsable "$disk"; blkid --probe --output export "$disk" || [ $? -eq 2 ] || echo ambiguous)
    [ -z "$known" ] || [ "$overwrite" = yes ] || fail "disk $serial ($disk) holds something known, and overwrite_known_signatures is not set"
done <"$etc/disks"

while read -r number serial size; do
    [ ! -e "$marks/$serial.done" ] || continue
    disk=$(find_disk "$serial") || fail "$(cat "$record.said")"
    if [ ! -s "$marks/$serial" ]; then
        cat /proc/sys/kernel/random/uuid >"$marks/$serial.new"
        sync "$marks/$serial.new"
        mv -f "$marks/$serial.new" "$marks/$serial"
    fi
    uuid=$(cat "$marks/$serial")
    echo "hostler: making a file system on disk $serial ($disk) for /share$number"
    wipefs --quiet --all --force "$disk" || fail "cannot wipe disk $serial ($disk)"
    mkfs.ext4 -q -F -U "$uuid" -L "share$number" "$disk" || fail "cannot make a file system on disk $serial ($disk)"
    mkdir -p "/share$number"
    grep -q "^UUID=$uuid " /etc/fstab || printf '%s\n' "UUID=$uuid /share$number ext4 defaults,nofail 0 2" >>/etc/fstab
    mount -t ext4 "$disk" "/share$number" || fail "cannot mount disk $serial ($disk) as /share$number"
    sync
    : >"$marks/$serial.done"
done <"$etc/disks"
