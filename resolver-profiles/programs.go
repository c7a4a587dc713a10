package profiles

import (
	"path"
	"regexp"
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
`

var (
	shellNames  = words(shells)
	runnerNames = words(runners)
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
// its arguments say: a shell, an interpreter, sudo, env and their like. Where a
// link leads to is judged by calling it again with that name.
func RunsOtherPrograms(name string) bool {
	name = path.Base(name)
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
// a shell: its bare name, or a path to one or to what runs others.
func namesShell(arg string) bool {
	if strings.HasPrefix(arg, "/") {
		return RunsOtherPrograms(arg)
	}
	return shellNames[arg]
}
