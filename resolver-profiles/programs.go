package profiles

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// shells take a program's text from an argument, a file or their input.
const shells = `sh ash bash rbash dash zsh ksh mksh pdksh lksh yash posh fish csh tcsh rc es elvish xonsh nu pwsh powershell busybox toybox sash`

// runners run other programs, or code, that their arguments name. The name alone
// decides: what one of them is asked to do cannot be judged here.
const runners = `
python pypy perl ruby irb node nodejs deno bun lua luajit php tclsh wish expect guile gawk mawk nawk awk original-awk
sed ed ex vi vim view nvim emacs nano pico less more most man java jshell groovy scala go cargo rustc tcc R Rscript
julia octave gdb lldb ghc runghc ocaml racket sbcl clisp erl elixir make gmake bmake ninja cmake
env xargs parallel find fd nice ionice chrt taskset numactl time timeout nohup setsid stdbuf unbuffer rlwrap
strace ltrace perf valgrind catchsegv setarch linux32 linux64 i386 x86_64 uname26 prlimit choom uclampset coresched
sudo sudoedit su runuser doas pkexec setpriv capsh newgrp sg chroot unshare nsenter ip firejail bwrap proot fakeroot fakechroot
systemd-run systemd-nspawn systemd-inhibit systemd-cat systemd-notify systemd-socket-activate machinectl run0
busctl dbus-launch dbus-run-session dbus-send gdbus start-stop-daemon daemon daemonize runsv chpst softlimit envdir setuidgid
s6-setuidgid tini dumb-init catatonit cgexec at batch atd cron crond crontab anacron run-parts watch script flock lockfile
screen tmux socat nc ncat netcat telnet ssh slogin scp sftp rsync rsh rlogin mosh git hg svn tar cpio zip dpkg rpm apt apt-get
dnf yum pip pip3 npm npx docker podman nerdctl crictl ctr runc crun lxc lxc-attach lxc-execute kubectl helm
ld.so ldd install modprobe kmod gcc cc tcl logrotate
ssh-agent ssh-keygen ssh-keyscan sshd sftp-server ssh-copy-id service invoke-rc.d rc-service initctl telinit init openrc
aa-exec aa-enforce aa-complain aa-disable apparmor_parser runcon setsebool
split csplit sort sqlite3 sqlite psql pg_dump mysql mariadb mongosh redis-cli tcpdump tshark dumpcap iptables ip6tables
iptables-nft iptables-legacy ip6tables-nft ip6tables-legacy iptables-restore ip6tables-restore xtables-nft-multi xtables-legacy-multi nft ebtables arptables ipset tc bridge ethtool
gpg gpg2 gpg-agent gpgconf gpgsm openssl certtool curl wget aria2c axel lftp ftp tftp ncftp rclone
bpftool bpftrace trace-cmd stap crash kexec insmod rmmod depmod dkms update-initramfs dracut mkinitramfs
clang g++ c++ cpp as ld tcc ar patch m4 bison flex php-fpm git-shell cvs bzr fossil tig
dmsetup lvm vgchange mdadm udevadm udisksctl fusermount fusermount3 mount.fuse sshfs pam_exec
scriptreplay dvtm abduco tmate byobu
virsh virt-install qemu-img qemu-nbd vagrant terraform ansible ansible-playbook salt-call puppet chef-client cloud-init
snap flatpak apt-key aptitude dpkg-reconfigure debconf zypper rpmbuild apk pacman alternatives update-alternatives
gpasswd chsh chfn vipw vigr visudo agetty getty login sulogin
`

// changers write, delete, change or stop what their arguments name: a file of the
// system, a disk, the machine.
const changers = `
cp mv tee dd ln link unlink rm rmdir mkdir mkfifo mknod mktemp truncate fallocate touch shred install chmod chown chgrp chattr
chcon restorecon setfacl setfattr setcap rename mmv sponge pax cpio tar bsdtar zip unzip 7z gzip gunzip bzip2 bunzip2 xz unxz
zstd unzstd lz4 lzop compress uncompress uudecode base64 base32 xxd
mount umount swapon swapoff losetup blkdiscard wipefs fdisk sfdisk cfdisk gdisk sgdisk parted partprobe blockdev hdparm sdparm
nvme sg_format sg_sanitize sg_dd mke2fs mkfs mkswap tune2fs resize2fs e2fsck fsck xfs_repair xfs_admin xfs_growfs xfs_io
btrfs zfs zpool debugfs lvcreate lvremove lvextend vgcreate vgremove pvcreate pvremove cryptsetup integritysetup veritysetup
reboot halt poweroff shutdown runlevel rtcwake kill killall pkill skill fuser sysctl setpci setterm loadkeys
useradd userdel usermod adduser deluser groupadd groupdel groupmod passwd chpasswd newusers pwck grpck
hostnamectl timedatectl localectl loginctl networkctl resolvectl homectl portablectl bootctl coredumpctl journalctl
systemd-tmpfiles systemd-sysusers systemd-hwdb systemd-machine-id-setup kernel-install grub-install grub-mkconfig efibootmgr
hwclock date hostname domainname ifconfig route arp iw iwconfig nmcli wpa_cli dhclient
ipmitool mlxfwmanager mstflint flint fwupdmgr flashrom nvflash amdvbflash mokutil
`

var (
	shellNames   = words(shells)
	runnerNames  = words(runners)
	changerNames = words(changers)
	// versioned is a name with its version: python3.11, ksh93, bash-5.2.
	versioned = regexp.MustCompile(`^(.*?[A-Za-z.])[-.]?[0-9][0-9.]*$`)
	loader    = regexp.MustCompile(`^(ld-linux.*|ld-[0-9].*|ld64?\.so.*|ld-musl.*|qemu-.*|.*-sh|.*\.sh)$`)
)

func words(s string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(s) {
		all[w] = true
	}
	return all
}

// RunsOtherPrograms reports whether a program is known, by its name, to run what
// its arguments say (a shell, an interpreter, sudo, env and their like), or to write
// where they say, with which the next program is another. Where a link leads to is
// judged by calling it again with that name.
func RunsOtherPrograms(name string) bool {
	name = path.Base(name)
	return runs(name) || named(changerNames, name) || strings.HasPrefix(name, "mkfs.") || strings.HasPrefix(name, "mount.")
}

func runs(name string) bool {
	return IsShell(name) || loader.MatchString(name) || named(runnerNames, name)
}

// IsShell reports whether a program is known, by its name, to be a shell.
func IsShell(name string) bool { return named(shellNames, path.Base(name)) }

func named(set map[string]bool, name string) bool {
	lower := strings.ToLower(name)
	plain, _, _ := strings.Cut(lower, ".") // busybox.static, sh.distrib
	if set[name] || set[lower] || set[plain] {
		return true
	}
	for {
		m := versioned.FindStringSubmatch(lower)
		if m == nil {
			return false
		}
		if lower = m[1]; set[lower] {
			return true
		}
	}
}

// namesShell reports whether a fixed argument would have another program start
// a shell: its bare name, or a path to one or to what runs others, alone or as a
// part of the argument: --filter=/bin/sh, ProxyCommand=sh.
func namesShell(arg string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune("=@,:;| \t", r) }), func(part string) bool {
		if strings.HasPrefix(part, "/") {
			return runs(path.Base(part))
		}
		return shellNames[part]
	})
}

// systemctl starts, stops and edits what runs as root; two of its verbs only tell
// whether a unit is active, by their exit status.
const systemctl = "systemctl"

var unitName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9@:._-]{0,200}\.(service|socket|timer|target|path|mount)$`)

// asksSystemctl reports whether these are the arguments of such a question, about
// units by their full names and without an option.
func asksSystemctl(args []string) bool {
	if len(args) < 2 || args[0] != "is-active" && args[0] != "is-failed" {
		return false
	}
	return !slices.ContainsFunc(args[1:], func(unit string) bool { return !unitName.MatchString(unit) })
}

// SameProgram reports whether a program that was judged by one name may be run as
// the file that it is a link to: systemctl is judged by its arguments too, and under
// another name was not.
func SameProgram(name, target string) bool {
	return (path.Base(name) == systemctl) == (path.Base(target) == systemctl)
}
