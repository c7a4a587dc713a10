package baseline

import (
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// made are the files that each installation writes with a content of its own. That
// they are there, whose they are and how they are protected is the same each time.
var made = []struct{ pattern, why string }{
	{"/etc/machine-id", "the system's own name"},
	{"/etc/ssh/ssh_host_*_key", "sshd's keys"},
	{"/etc/ssh/ssh_host_*_key.pub", "sshd's keys"},
	{"/etc/maas/maas-machine-creds.yml", "the machine's token at MAAS, which must be another"},
	{"/etc/fstab", "names file systems by UUIDs, which are made with them"},
	{"/boot/grub/grub.cfg", "names file systems by UUIDs"},
	{"/boot/initrd.img-*", "holds these UUIDs, and the time at which it was made"},
}

// trees are what cloud-init and Hostler's own first boot keep of the data that a
// system was installed with, which holds its enrolment. Whether cloud-init is off is an
// object of the baseline, and is compared.
var trees = []string{"/var/lib/cloud/", "/var/lib/hostler-bootstrap/"}

// cmdline begins the object that is the digest of the kernel's command line, which
// names the root file system by its UUID.
const cmdline = "kernel/cmdline "

// Installed is the baseline of a node whose system was installed anew: what the fresh
// system says of itself, and of what lies below it, which no installation changes, what
// the one before says. Unlike is how the systems differ but for what each installation
// makes for itself; no line: they are alike, and the baseline may be put in force.
func Installed(was, is *taskcatalog.Baseline) (now taskcatalog.Baseline, unlike []Line) {
	now = *is
	if len(was.Platform) > 0 {
		below := func(row string) bool { return slices.Contains(taskcatalog.PlatformChecks(), row) }
		now.Platform = was.Platform
		now.NotTaken = slices.DeleteFunc(slices.Clone(is.NotTaken), below)
		for _, row := range was.NotTaken {
			if below(row) {
				now.NotTaken = append(now.NotTaken, row)
			}
		}
	}
	before, after := *was, now
	before.Platform, after.Platform = nil, nil
	before.Files, after.Files = alike(was.Files, is.Files)
	before.Users = slices.Clone(was.Users)
	for i, u := range before.Users {
		at := slices.IndexFunc(is.Users, func(o taskcatalog.BaselineUser) bool { return o.Name == u.Name })
		if at >= 0 && salted(u.Login) && salted(is.Users[at].Login) {
			before.Users[i].Login = is.Users[at].Login // another salt
		}
	}
	if count(was.Objects, cmdline) == count(is.Objects, cmdline) {
		before.Objects, after.Objects = without(was.Objects, cmdline), without(is.Objects, cmdline)
	}
	return now, Diff(&before, &after)
}

// alike gives the files to be compared: the content of those that were made anew is as
// it is now, and what cloud-init keeps is left out.
func alike(was, is []taskcatalog.BaselineFile) (before, after []taskcatalog.BaselineFile) {
	now := map[string]taskcatalog.BaselineFile{}
	for _, f := range is {
		if !kept(f.Path) {
			after = append(after, f)
			now[f.Path] = f
		}
	}
	for _, f := range was {
		if kept(f.Path) {
			continue
		}
		if has, there := now[f.Path]; there && madeAnew(f.Path) && content(f) && content(has) {
			f.Digest = has.Digest
		}
		before = append(before, f)
	}
	return before, after
}

func kept(name string) bool {
	return slices.ContainsFunc(trees, func(t string) bool { return strings.HasPrefix(name, t) })
}

func madeAnew(name string) bool {
	for _, m := range made {
		if is, err := path.Match(m.pattern, name); err == nil && is {
			return true
		}
	}
	return false
}

// content reports whether a record is that of a file's content: not of a link, which
// leads elsewhere, nor of one that is not there.
func content(f taskcatalog.BaselineFile) bool {
	return hex16(f.Digest) || strings.HasPrefix(f.Digest, "big:")
}

// salted reports whether a login is a password's, and neither locked nor open.
func salted(login string) bool { return hex16(login) }

// hex16 reports whether text is a digest as baselines have it.
func hex16(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == ""
}

func count(all []string, prefix string) (n int) {
	for _, o := range all {
		if strings.HasPrefix(o, prefix) {
			n++
		}
	}
	return n
}

func without(all []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(o string) bool { return strings.HasPrefix(o, prefix) })
}
