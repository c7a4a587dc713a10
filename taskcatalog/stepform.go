package taskcatalog

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Bounds of literals, in bytes.
const (
	maxStepText     = 1024
	maxStepTemplate = 64 << 10
	maxStepTexts    = 256
	maxStepPackages = 64
)

// MaxStepSignature bounds what is given as the signature of a file, in bytes.
const MaxStepSignature = 64 << 10

// StepPackagePattern is the pattern of a package with its version, as an input gives it.
// For apt a '-' or '+' at the end is no part of the version but an order.
const StepPackagePattern = `^[a-z0-9][a-z0-9.+-]+=[0-9A-Za-z.+:~-]*[0-9A-Za-z.~]$`

// StepDigestPattern is the pattern of an input that gives a digest.
const StepDigestPattern = `^sha256:[0-9a-f]{64}$`

// MaxStepNumber is the greatest number that every reader of JSON reads exactly.
const MaxStepNumber = 1<<53 - 1

var (
	stepDigest  = lazyregexp.New(StepDigestPattern)
	stepRoot    = lazyregexp.New(`^(/[A-Za-z0-9._+-]+)+$`)
	stepName    = lazyregexp.New(`^[A-Za-z0-9_+-][A-Za-z0-9._+-]*(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)*$`)
	stepPackage = lazyregexp.New(StepPackagePattern)
	stepUnit    = lazyregexp.New(`^[A-Za-z0-9:_.\\@-]+\.(service|socket|timer)$`)
	// noStepUnit are units that end the machine, open a way in, or are Hostler's or systemd's own.
	noStepUnit = lazyregexp.New(`^(hostler|systemd-|dbus|debug-shell|emergency|rescue|getty|serial-getty|console-getty|container-getty|autovt|user@|user-|ssh|dropbear|` +
		`initrd|kexec|polkit|networking|NetworkManager|ifup@|rc-local)`)
	stepAccount = lazyregexp.New(`^[a-z_][a-z0-9_-]{0,30}$`)
)

// writableTrees are the directories below which steps write.
var writableTrees = []string{"/etc", "/opt", "/srv", "/usr/local/share", "/var/cache", "/var/lib"}

// neverBelow are beginnings of paths: languages have a directory each version.
var neverBelow = []string{"/etc/python", "/etc/perl", "/usr/local/share/perl", "/usr/local/share/ca-certificates"}

// notWritable are directories below writableTrees in which no step writes: files there are run or loaded, or
// they decide who may do what. A file of a template would be a program otherwise. Hostler's own are among
// them.
var notWritable = []string{
	"/etc/acpi", "/etc/alternatives", "/etc/apparmor.d", "/etc/apt", "/etc/audit", "/etc/bash_completion.d", "/etc/binfmt.d", "/etc/ca-certificates", "/etc/cloud", "/etc/cron.d", "/etc/cron.daily",
	"/etc/cron.hourly", "/etc/cron.monthly", "/etc/cron.weekly", "/etc/cron.yearly", "/etc/dbus-1", "/etc/default", "/etc/dhcp", "/etc/dpkg",
	"/etc/grub.d", "/etc/hostler", "/etc/hostler-agent", "/etc/init.d", "/etc/initramfs-tools", "/etc/kernel", "/etc/ld.so.conf.d",
	"/etc/NetworkManager", "/etc/logrotate.d", "/etc/lvm", "/etc/mdadm", "/etc/modprobe.d", "/etc/modules-load.d", "/etc/needrestart", "/etc/network",
	"/etc/networkd-dispatcher", "/etc/pam.d", "/etc/polkit-1", "/etc/ppp", "/etc/profile.d",
	"/etc/rc0.d", "/etc/rc1.d", "/etc/rc2.d", "/etc/rc3.d", "/etc/rc4.d", "/etc/rc5.d", "/etc/rc6.d", "/etc/rcS.d", "/etc/resolvconf", "/etc/rsyslog.d",
	"/etc/security", "/etc/skel", "/etc/smartmontools", "/etc/ssh", "/etc/ssl", "/etc/sssd", "/etc/sudoers.d", "/etc/sysctl.d", "/etc/systemd", "/etc/tmpfiles.d", "/etc/udev", "/etc/ufw",
	"/etc/update-motd.d", "/etc/xdg", "/opt/hostler", "/usr/local/share/dbus-1", "/usr/local/share/polkit-1", "/var/cache/debconf",
	"/var/lib/apt", "/var/lib/cloud", "/var/lib/dkms", "/var/lib/dpkg", "/var/lib/extrausers", "/var/lib/hostler", "/var/lib/hostler-agent",
	"/var/lib/polkit-1", "/var/lib/systemd",
}

// FormFault says why a literal does not fit an argument; empty: it fits.
func FormFault(a StepArg, v StepValue) string {
	text, isText := v.Literal.(string)
	switch a.Type {
	case StepTable:
		return "is a table of names with values"
	case StepSecret, StepPath:
		return "comes from an earlier step (from: steps.ID)"
	case StepInteger:
		if n, ok := v.Literal.(int64); !ok || n < 0 || n > MaxStepNumber {
			return "is a whole number from 0 to 2^53-1"
		}
		return ""
	case StepBoolean:
		if _, ok := v.Literal.(bool); !ok {
			return "is true or false"
		}
		return ""
	case StepTexts, StepPackages:
		return textsFault(a.Type, v.Literal)
	}
	if !isText {
		return "is a text"
	}
	return textFault(a, text)
}

func textFault(a StepArg, text string) string {
	most := maxStepText
	switch a.Type {
	case StepTemplate:
		most = maxStepTemplate
	case StepSignature:
		most = MaxStepSignature
	}
	switch {
	case len(a.Values) > 0 && !slices.Contains(a.Values, text):
		return "is one of " + strings.Join(a.Values, ", ")
	case a.Type == StepDigest && !stepDigest.MatchString(text):
		return "is sha256: and 64 hexadecimal digits"
	case a.Type == StepRoot && !writable(text):
		return "is an absolute path without . and .., below " + strings.Join(writableTrees, ", ") + ", outside directories whose files are run, loaded or decide who may do what"
	case a.Type == StepName && (!stepName.MatchString(text) || len(text) > 255):
		return "is a relative path; no part of it begins with a dot"
	case a.Type == StepUnit && (!stepUnit.MatchString(text) || noStepUnit.MatchString(text)):
		return "is the full name of a service, socket or timer, such as slurmd.service, and none of the machine's own"
	case a.Type == StepAccount && !stepAccount.MatchString(text):
		return "is an account"
	case most == maxStepText:
		return plainFault(text)
	case text == "" || len(text) > most:
		return fmt.Sprintf("has 1 to %d bytes", most)
	}
	return ""
}

func textsFault(of StepType, literal any) string {
	all, ok := literal.([]string)
	most := maxStepTexts
	if of == StepPackages {
		most = maxStepPackages
	}
	if !ok || len(all) == 0 || len(all) > most {
		return fmt.Sprintf("is a list of 1 to %d texts", most)
	}
	for _, one := range all {
		if of == StepPackages && !stepPackage.MatchString(one) {
			return "names a package without its version: " + strconv.Quote(Clean(one, 80)) + " (NAME=VERSION)"
		}
		if what := CellFault(one); what != "" {
			return what
		}
	}
	return ""
}

// CellFault says why a literal is no value of a table or list; empty: it is one.
func CellFault(literal any) string {
	switch v := literal.(type) {
	case bool:
		return ""
	case int64:
		if v < 0 || v > MaxStepNumber {
			return "is no number from 0 to 2^53-1"
		}
		return ""
	case string:
		return plainFault(v)
	case []string:
		for _, one := range v {
			if what := CellFault(one); what != "" {
				return what
			}
		}
		return ""
	}
	return "is a text, a number, true or false, or a list of texts"
}

// plainFault says why a text is none that may become an argument or a line; empty: it is one.
func plainFault(text string) string {
	if text == "" || text[0] == '-' || len(text) > maxStepText || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Sprintf("has 1 to %d bytes, no control character, and no '-' at its beginning", maxStepText)
	}
	return ""
}

func writable(dir string) bool {
	below := func(tree string) bool { return strings.HasPrefix(dir, tree+"/") }
	return stepRoot.MatchString(dir) && path.Clean(dir) == dir && len(dir) <= 255 && slices.ContainsFunc(writableTrees, below) &&
		!slices.ContainsFunc(neverBelow, func(no string) bool { return strings.HasPrefix(dir, no) }) &&
		!slices.ContainsFunc(notWritable, func(no string) bool { return dir == no || below(no) })
}
