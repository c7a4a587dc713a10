# Makes a file system on each extra disk and mounts it as /shareN. Every disk is
# looked at before any is touched, and one that is not as expected spares them all.
# disks/SERIAL is there before a disk is touched, and holds the UUID that its file
# system gets. The line in fstab comes when that is whole: others may write to it
# from then on, so it is never made again.
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

# in_use DISK: mounted, swapped to, or held, itself or any part of it; or nobody
# can tell. A member of a btrfs or of a ZFS pool shows no mount and no holder: the
# kernel alone knows, and refuses it to who would have it alone.
in_use() {
    mounts=$(lsblk --noheadings --raw --output MOUNTPOINT "$1") || return 0
    types=$(lsblk --noheadings --raw --output TYPE "$1") || return 0
    [ -z "$(echo "$mounts" | tr -d ' \n')" ] || return 0
    [ "$(echo "$types" | grep -cvx -e disk -e part)" -eq 0 ] || return 0
    set +f
    for holder in /sys/class/block/"${1##*/}"/holders/* /sys/class/block/"${1##*/}"/*/holders/*; do
        [ ! -e "$holder" ] || { set -f; return 0; }
    done
    set -f
    perl -MFcntl -e 'sysopen(my $disk, shift, O_RDONLY | O_EXCL) or die "$!\n"' "$1" && return 1
    return 0
}

# shared: the disk is mounted where it should be.
shared() {
    findmnt --source "$disk" --mountpoint "/share$number" >/dev/null
}

# look: at the disk $serial. Sets disk, the uuid of one that was begun, and made.
look() {
    disk=$(find_disk "$serial") || fail "$(cat "$record.said")"
    has=$(blockdev --getsize64 "$disk")
    [ "$has" = "$size" ] || fail "disk $serial ($disk) has $has bytes, and not the $size that MAAS found"
    uuid=$(cat "$marks/$serial" 2>/dev/null || :)
    made=no
    [ ! -e "$marks/$serial.done" ] || return 0
    holds=$(blkid --probe --match-tag UUID --output value "$disk" || :)
    if [ -n "$uuid" ] && { grep -qs "^UUID=$uuid " /etc/fstab || shared; }; then
        made=yes
        [ "$holds" = "$uuid" ] || fail "disk $serial ($disk) does not hold the file system that was made on it"
        ! shared || return 0
    fi
    ! in_use "$disk" || fail "disk $serial ($disk) is mounted or held"
    # What our own mkfs left half-way is no stranger's.
    [ -z "$uuid" ] || [ "$holds" != "$uuid" ] || return 0
    known=$(wipefs --noheadings --parsable "$disk"; blkid --probe --output export "$disk" || [ $? -eq 2 ] || echo ambiguous)
    [ -z "$known" ] || [ "$overwrite" = yes ] || fail "disk $serial ($disk) holds something known, and overwrite_known_signatures is not set"
}

while read -r number serial size; do
    look
done <"$etc/disks"

while read -r number serial size; do
    [ ! -e "$marks/$serial.done" ] || continue
    look
    if [ -z "$uuid" ]; then
        uuid=$(cat /proc/sys/kernel/random/uuid)
        echo "$uuid" >"$marks/$serial.new"
        sync "$marks/$serial.new"
        mv -f "$marks/$serial.new" "$marks/$serial"
        sync "$marks"
    fi
    if [ "$made" = no ]; then
        echo "hostler: making a file system on disk $serial ($disk) for /share$number"
        # Without --force it asks the kernel for the disk alone, once more.
        wipefs --quiet --all "$disk" || fail "cannot wipe disk $serial ($disk)"
        mkfs.ext4 -q -F -U "$uuid" -L "share$number" "$disk" || fail "cannot make a file system on disk $serial ($disk)"
    fi
    mkdir -p "/share$number"
    grep -qs "^UUID=$uuid " /etc/fstab || printf '%s\n' "UUID=$uuid /share$number ext4 defaults,nofail 0 2" >>/etc/fstab
    sync /etc/fstab
    shared || mount -t ext4 "$disk" "/share$number" || fail "cannot mount disk $serial ($disk) as /share$number"
    sync
    : >"$marks/$serial.done"
done <"$etc/disks"
