package profiles

import (
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// shells take a program's text from an argument, a file or their input.
const shells = `sh ash bash rbash dash zsh ksh mksh pdksh lksh yash posh fish csh tcsh rc es elvish xonsh nu pwsh powershell busybox toybox sash`

// runners run other programs, or code, named by their arguments. The program's name alone decides,
// because the effect of its arguments cannot be judged here.
const runners = `
python pypy perl ruby irb node nodejs deno bun lua luajit php tclsh wish expect guile gawk mawk nawk awk original-awk
sed ed ex vi vim view nvim emacs nano pico less more most man java jshell groovy scala go cargo rustc tcc R Rscript
julia octave gdb lldb ghc runghc ocaml racket sbcl clisp erl elixir make gmake bmake ninja cmake
env xargs parallel find fd nice ionice chrt taskset numactl time timeout nohup setsid stdbuf unbuffer rlwrap
strace ltrace perf valgrind catchsegv setarch linux32 linux64 uname26 prlimit choom uclampset coresched
nsys ncu nvprof nv-nsight-cu-cli compute-sanitizer cuda-memcheck rocgdb rocprof rocprofv2 rocprofv3 rocprof-compute rocprof-sys-run omnitrace omniperf
gdbserver lldb-server rr uftrace heaptrack hyperfine entr chronic ifne mispipe pee vidir vipe zrun hwloc-bind dtach autossh sshpass gosu su-exec
mpirun mpiexec orterun prterun prun oshrun srun sbatch salloc sattach scrun jsrun aprun ibrun torchrun accelerate deepspeed
logsave msgexec msgfilter switch_root pivot_root run-mailcap mail mailx mutt sendmail procmail gnuplot dc nmap
coreutils vimdiff vimtutor rvim rview gvim gview evim editor pager sensible-editor sensible-pager
ipython bpython micropython jython qjs gjs mono dotnet wine escript iex uv uvx pipx poetry conda mamba gem bundle rake cpan
gradle mvn ant bazel meson scons nvcc hipcc apptainer singularity
nvidia-container-runtime nvidia-container-runtime-hook nvidia-installer nvidia-uninstall amd-container-runtime
sudo sudoedit su runuser doas pkexec setpriv capsh newgrp sg chroot unshare nsenter ip firejail bwrap proot fakeroot fakechroot
systemd-run systemd-vmspawn systemd-mount systemd-umount systemd-dissect systemd-sysext systemd-confext systemd-repart systemd-creds
systemd-nspawn systemd-inhibit systemd-cat systemd-notify systemd-socket-activate machinectl run0
busctl dbus-launch dbus-run-session dbus-send gdbus start-stop-daemon daemon daemonize runsv chpst softlimit envdir setuidgid
s6-setuidgid tini dumb-init catatonit cgexec at batch atd cron crond crontab anacron run-parts watch script flock lockfile
screen tmux socat nc ncat netcat telnet ssh slogin scp sftp rsync rsh rlogin mosh git hg svn tar cpio zip dpkg rpm apt apt-get
dnf yum pip pip3 npm npx docker podman nerdctl crictl ctr runc crun lxc lxc-attach lxc-execute kubectl kubeadm helm
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

// changers write, delete, change or stop the objects in their arguments: a file of the system, a
// disk, the machine.
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
objcopy strip ranlib elfedit patchelf nvidia-xconfig update-passwd
ipmitool mlxfwmanager mlxconfig mlxfwreset mlxreg mstflint mstconfig mstfwreset mstreg flint fwupdmgr flashrom nvflash amdvbflash mokutil
`

var (
	shellNames   = words(shells)
	runnerNames  = words(runners)
	changerNames = words(changers)
	// versioned is a name with its version: python3.11, ksh93, bash-5.2, g++12, python3.13t.
	versioned = lazyregexp.New(`^(.*?[A-Za-z.+_])[-.]?[0-9][0-9.]*[a-z]?$`)
	loader    = lazyregexp.New(`^(ld-linux.*|ld-[0-9].*|ld64?\.so.*|ld-musl.*|qemu-.*|.*-sh|.*\.sh|mkfs\..*|mount\..*)$`)
	// setarch runs a program for the architecture in setarch's own name. As a part of a longer name
	// the architecture is the target of the program: x86_64-linux-gnu-readelf.
	architecture = lazyregexp.New(`^(x86_64|i[3-6]86)$`)
	// dataFile matches paths that are never programs: a configuration, a key, a log.
	dataFile = lazyregexp.New(`\.(json|ya?ml|toml|conf|cfg|ini|xml|csv|txt|log|pem|crt|cer|key|pub|service|socket|timer)$`)
)

func words(s string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(s) {
		all[w] = true
	}
	return all
}

// RunsOtherPrograms reports whether a program is known, by its name, to run programs or code from
// its arguments (a shell, an interpreter, sudo, env and the like), or to write where its arguments
// say, which could replace the next program. For a link, call RunsOtherPrograms again with the name
// of the target.
func RunsOtherPrograms(name string) bool {
	name = path.Base(name)
	return loader.MatchString(name) || architecture.MatchString(name) || named(name, shellNames, runnerNames, changerNames)
}

// IsShell reports whether a program is known, by its name, to be a shell.
func IsShell(name string) bool { return named(path.Base(name), shellNames) }

// named reports whether a name, or a part of it between '-', is in one of the
// sets: perl5.36-x86_64-linux-gnu, x86_64-linux-gnu-g++-12, cuda-gdb.
func named(name string, sets ...map[string]bool) bool {
	return slices.ContainsFunc(append(strings.Split(name, "-"), name), func(part string) bool {
		return slices.ContainsFunc(sets, func(set map[string]bool) bool { return known(set, part) })
	})
}

// known looks up a name in a set in several forms: unchanged, without everything after its first
// dot (busybox.static, sh.distrib), without the prefix gnu of a second set of tools (gnudd), and
// without versions.
func known(set map[string]bool, name string) bool {
	lower := strings.ToLower(name)
	plain, _, _ := strings.Cut(lower, ".")
	if set[name] || set[lower] || set[plain] || set[strings.TrimPrefix(plain, "gnu")] {
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

// NamesProgram reports whether an argument could make another program start a shell or a runner or
// changer: a shell's bare name, or a path to any of them, alone or as a part of the argument:
// --filter=/bin/sh, ProxyCommand=sh, -c/usr/bin/dd. A path to data does not count, whatever its
// name: /etc/docker/daemon.json.
func NamesProgram(arg string) bool {
	const between = "=@,:;| \t\"'`$&<>(){}[]"
	return slices.ContainsFunc(strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune(between, r) }),
		func(part string) bool {
			if strings.Contains(part, "/") {
				return !dataFile.MatchString(part) && RunsOtherPrograms(part)
			}
			return shellNames[part]
		})
}

// systemctl starts, stops and edits units that run as root. Two of its verbs only report, by their
// exit status, whether a unit is active or failed.
const systemctl = "systemctl"

var unitName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9@:._-]{0,200}\.(service|socket|timer|target|path|mount)$`)

// queriesUnits reports whether args are such a question, about units by their full names and
// without options.
func queriesUnits(args []string) bool {
	if len(args) < 2 || args[0] != "is-active" && args[0] != "is-failed" {
		return false
	}
	return !slices.ContainsFunc(args[1:], func(unit string) bool { return !unitName.MatchString(unit) })
}

// SameProgram reports whether a program that was judged by one name may be run as the target of its
// link. systemctl is also judged by its arguments, so both names or neither must be systemctl.
func SameProgram(name, target string) bool {
	return (path.Base(name) == systemctl) == (path.Base(target) == systemctl)
}
