package validate

import (
	"context"
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// etcRows are the rows decided by all of /etc, and by units elsewhere.
var etcRows = []string{"cron", "units", "preload", "pam", "sudoers", "ssh_server", "udev", "modprobe", "config"}

// volatileEtc are paths in /etc that the system itself changes. lookUsers compares the accounts;
// the other files hold no setting. In the directories listed here, anything but a plain file is
// still compared.
var volatileEtc = []string{
	"/etc/passwd", "/etc/passwd-", "/etc/group", "/etc/group-", "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-",
	"/etc/subuid", "/etc/subuid-", "/etc/subgid", "/etc/subgid-", "/etc/.pwd.lock", "/etc/adjtime", "/etc/blkid.tab", "/etc/.updated",
	"/etc/lvm/archive", "/etc/lvm/backup", "/etc/lvm/cache", "/etc/hostler-agent/enroll.token",
}

// datedFiles are files that begin with a comment with the time of their creation. The time differs
// with every installation and has no effect on programs that read the file. A line that differs in
// any other way is compared like the rest.
var datedFiles = map[string]*lazyregexp.Regexp{
	"/etc/sudoers.d/90-cloud-init-users": lazyregexp.New(`\A# Created by cloud-init v\. [0-9A-Za-z.+~:-]{1,64} on [A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4}\n`),
}

// etcTops are /etc and the other directories from which the system reads units and rules: a file in
// /run overrides a file in /usr and lasts until a reboot.
var etcTops = []string{
	"/etc", "/usr/local/lib/systemd", "/run/systemd/system", "/run/systemd/system.control", "/run/systemd/transient", "/run/systemd/user",
	"/run/udev/rules.d", "/run/modprobe.d", "/run/modules-load.d", "/run/sysctl.d", "/run/tmpfiles.d", "/run/binfmt.d", "/run/polkit-1",
}

// lookEtc compares all of /etc, and units and rules in the other directories of etcTops.
func lookEtc(ctx context.Context, v *validation) ([]item, error) {
	accountFiles := map[string]bool{}
	for _, a := range v.accounts {
		accountFiles[host.SudoersFile(a.Username)] = true
	}
	names, err := v.tree(ctx, etcTops, func(name string, mode uint32) bool {
		return passive(mode) && (slices.Contains(volatileEtc, name) || slices.Contains(volatileEtc, path.Dir(name))) ||
			name == "/etc/mtab" && mode&unix.S_IFMT != unix.S_IFDIR || ephemeralUnit(name, mode)
	})
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("/etc is empty")
	}
	for name := range v.conf {
		if _, there := slices.BinarySearch(names, name); !there {
			names = append(names, name)
		}
	}
	all, err := v.records(ctx, names, true)
	if err != nil {
		return nil, err
	}
	mine := slices.DeleteFunc(slices.Clone(all), func(f taskcatalog.BaselineFile) bool {
		return rowOf(f.Path) == "login_files" || rowOf(f.Path) == "boot"
	})
	items := v.compareFiles("etc", mine, func(name string) bool { return slices.Contains(etcRows, rowOf(name)) }, rowOf)
	for i, it := range items {
		if accountFiles[it.key] {
			items[i].tenant, items[i].finding.NextAction = true, taskcatalog.ActionRevokeUser
		}
		if it.row == "units" && slices.Contains(v.policy.KnownUnits, path.Base(it.key)) {
			items[i].row = ""
		}
	}
	return slices.DeleteFunc(items, func(it item) bool { return it.row == "" }), nil
}

var ephemeral = lazyregexp.New(`^/run/systemd/transient/(session-[^/]*\.scope|init\.scope|user@[0-9]+\.service)$`)

// ephemeralUnit reports whether systemd created the unit file for a login or for its own mounts.
func ephemeralUnit(name string, mode uint32) bool {
	return passive(mode) && ephemeral.MatchString(name)
}
