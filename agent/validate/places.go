package validate

import (
	"strings"

	"golang.org/x/sys/unix"
)

// places maps watched paths to rows of the table of checks. The first matching row wins.
var places = []struct {
	row      string
	prefixes []string
}{
	{"jobs", []string{"/var/spool/", "/var/lib/systemd/linger"}},
	{"cron", []string{"/etc/crontab", "/etc/cron.", "/etc/anacrontab", "/etc/at."}},
	{"units", []string{"/etc/systemd/", "/run/systemd/", "/usr/local/lib/systemd/", "/etc/init.d/", "/etc/rc", "/etc/inittab"}},
	{"login_files", []string{
		"/etc/profile", "/etc/environment", "/etc/bash.bashrc", "/etc/zsh", "/etc/skel/", "/etc/csh",
		"/etc/update-motd.d/", "/etc/X11/Xsession",
	}},
	{"preload", []string{"/etc/ld.so."}},
	{"pam", []string{"/etc/pam.", "/etc/security/", "/etc/nsswitch.conf"}},
	{"sudoers", []string{"/etc/sudo", "/etc/polkit-1/", "/run/polkit-1/", "/etc/doas"}},
	{"ssh_server", []string{"/etc/ssh/"}},
	{"udev", []string{"/etc/udev/", "/run/udev/"}},
	{"modprobe", []string{"/etc/modprobe.d/", "/etc/modules", "/etc/depmod.d/", "/run/modprobe.d/", "/run/modules-load.d/"}},
	{"boot", []string{"/boot/", "/etc/default/grub", "/etc/grub.d/", "/etc/kernel/", "/etc/initramfs-tools/", "/etc/dracut"}},
	{"config", []string{"/etc/", "/run/"}},
	{"cloud_init", []string{"/var/lib/cloud", "/var/lib/hostler-bootstrap"}},
	{"programs", []string{"/usr/", "/opt/", "/lib/", "/bin/", "/sbin/"}},
}

// rowOf returns the row of a watched path.
func rowOf(name string) string {
	for _, p := range places {
		for _, prefix := range p.prefixes {
			if strings.HasPrefix(name, prefix) {
				return p.row
			}
		}
	}
	if strings.Contains(name, "/.ssh/") || strings.HasSuffix(name, "/.ssh") {
		return "authorized_keys"
	}
	return "login_files"
}

// passive reports whether mode is that of a plain file that is not executable. A path excepted by
// name is excepted only while it is such a file.
func passive(mode uint32) bool { return mode&unix.S_IFMT == unix.S_IFREG && mode&0o111 == 0 }
