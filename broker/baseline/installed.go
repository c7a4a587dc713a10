package baseline

import (
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// regenerated are the files that each installation writes with different content. Their presence,
// owner and mode are the same each time, and are compared.
var regenerated = []struct{ pattern, why string }{
	{"/etc/machine-id", "the system's own name"},
	{"/etc/ssh/ssh_host_*_key", "sshd's keys"},
	{"/etc/ssh/ssh_host_*_key.pub", "sshd's keys"},
	{"/etc/maas/maas-machine-creds.yml", "the machine's MAAS token, which must be a new one"},
	{"/etc/fstab", "names file systems by UUIDs, which are created with the file systems"},
	{"/boot/grub/grub.cfg", "names file systems by UUIDs"},
	{"/boot/initrd.img-*", "contains these UUIDs, and its time of creation"},
}

// trees are the folders in which cloud-init and Hostler's first boot keep the data of the
// installation, which contains the node's enrolment. They are not compared. Whether cloud-init is
// off is an object of the baseline, and is compared.
var trees = []string{"/var/lib/cloud/", "/var/lib/hostler-bootstrap/"}

// cmdline is the prefix of the object with the digest of the kernel's command line. The command
// line names the root file system by UUID, so the digest differs after each installation.
const cmdline = "kernel/cmdline "

// Installed returns the baseline of a node whose system was installed again. was is the baseline
// from before, is the fresh system's. The result is a copy of is, but the platform rows come from
// was, if was has any, because no installation changes the platform below the system. unlike lists
// the differences between the systems, without the differences that every installation makes. If
// unlike is empty, the systems are alike, and the result may be put in force.
func Installed(was, is *taskcatalog.Baseline) (now taskcatalog.Baseline, unlike []Line) {
	now = withPlatform(was, is)
	before, after := *was, now
	before.Platform, after.Platform = nil, nil
	before.Files, after.Files = comparableFiles(was.Files, is.Files)
	before.Users = slices.Clone(was.Users)
	for i, u := range before.Users {
		at := slices.IndexFunc(is.Users, func(o taskcatalog.BaselineUser) bool { return o.Name == u.Name })
		if at >= 0 && salted(u.Login) && salted(is.Users[at].Login) {
			before.Users[i].Login = is.Users[at].Login // passwords are not compared: each installation salts them anew
		}
	}
	if count(was.Objects, cmdline) == count(is.Objects, cmdline) {
		before.Objects, after.Objects = withoutPrefix(was.Objects, cmdline), withoutPrefix(is.Objects, cmdline)
	}
	return now, Diff(&before, &after)
}

// OtherImage is Installed for a system from another image than the one from before: only the hardware is
// compared. The settings of GPUs and all software come with the image.
func OtherImage(was, is *taskcatalog.Baseline) (now taskcatalog.Baseline, unlike []Line) {
	before, after := taskcatalog.Baseline{Inventory: was.Inventory}, taskcatalog.Baseline{Inventory: is.Inventory}
	return withPlatform(was, is), Diff(&before, &after)
}

// withPlatform returns a copy of is with the platform rows of was, if was has any.
func withPlatform(was, is *taskcatalog.Baseline) taskcatalog.Baseline {
	now := *is
	if len(was.Platform) == 0 {
		return now
	}
	below := func(row string) bool { return slices.Contains(taskcatalog.PlatformChecks(), row) }
	now.Platform = was.Platform
	now.NotTaken = slices.DeleteFunc(slices.Clone(is.NotTaken), below)
	for _, row := range was.NotTaken {
		if below(row) {
			now.NotTaken = append(now.NotTaken, row)
		}
	}
	return now
}

// comparableFiles returns the files to compare. Files of every installation (regenerated) get the
// present content also in before, and the folders of cloud-init (trees) are left out.
func comparableFiles(was, is []taskcatalog.BaselineFile) (before, after []taskcatalog.BaselineFile) {
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
		if has, there := now[f.Path]; there && isRegenerated(f.Path) && content(f) && content(has) {
			f.Digest = has.Digest
		}
		before = append(before, f)
	}
	return before, after
}

func kept(name string) bool {
	return slices.ContainsFunc(trees, func(t string) bool { return strings.HasPrefix(name, t) })
}

func isRegenerated(name string) bool {
	for _, m := range regenerated {
		if is, err := path.Match(m.pattern, name); err == nil && is {
			return true
		}
	}
	return false
}

// content reports whether a record describes the content of a file, and not a link or a missing
// file.
func content(f taskcatalog.BaselineFile) bool {
	return hex16(f.Digest) || strings.HasPrefix(f.Digest, "big:")
}

// salted reports whether a login is the digest of a password, and neither locked nor open.
func salted(login string) bool { return hex16(login) }

// hex16 reports whether text has the form of a digest in a baseline: 16 bytes in lower-case
// hexadecimal.
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

func withoutPrefix(all []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(o string) bool { return strings.HasPrefix(o, prefix) })
}
