package validate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// places maps watched paths to rows of the table of checks. The first matching row wins.
var places = []struct {
	row      string
	prefixes []string
}{
	{"jobs", []string{"/var/spool/", "/var/lib/systemd/linger"}},
	{"cron", []string{"/etc/crontab", "/etc/cron.", "/etc/anacrontab", "/etc/at."}},
	{"units", []string{"/etc/systemd/", "/run/systemd/", "/usr/local/lib/systemd/", "/etc/init.d/", "/etc/rc", "/etc/inittab"}},
	{"login_files", []string{"/etc/profile", "/etc/environment", "/etc/bash.bashrc", "/etc/zsh", "/etc/skel/", "/etc/csh", "/etc/update-motd.d/", "/etc/X11/Xsession"}},
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

// etcRows are the rows decided by all of /etc, and by units elsewhere.
var etcRows = []string{"cron", "units", "preload", "pam", "sudoers", "ssh_server", "udev", "modprobe", "config"}

// restless are paths in /etc that the system itself changes. lookUsers compares the accounts; the
// other files hold no setting. In the directories listed here, anything but a plain file is still
// compared.
var restless = []string{
	"/etc/passwd", "/etc/passwd-", "/etc/group", "/etc/group-", "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-",
	"/etc/subuid", "/etc/subuid-", "/etc/subgid", "/etc/subgid-", "/etc/.pwd.lock", "/etc/adjtime", "/etc/blkid.tab", "/etc/.updated",
	"/etc/lvm/archive", "/etc/lvm/backup", "/etc/lvm/cache", "/etc/hostler-agent/enroll.token",
}

// dated are files that begin with a comment with the time of their creation. The time differs with
// every installation and has no effect on programs that read the file. A line that differs in any
// other way is compared like the rest.
var dated = map[string]*regexp.Regexp{
	"/etc/sudoers.d/90-cloud-init-users": regexp.MustCompile(`\A# Created by cloud-init v\. [0-9A-Za-z.+~:-]{1,64} on [A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4}\n`),
}

// crowded are directories of many small files that change together: in the baseline one line stands
// for a whole directory.
var crowded = []string{"/etc/alternatives", "/etc/ssl/certs", "/etc/ca-certificates", "/etc/rc0.d", "/etc/rc1.d", "/etc/rc2.d", "/etc/rc3.d", "/etc/rc4.d", "/etc/rc5.d", "/etc/rc6.d", "/etc/rcS.d"}

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
		return passive(mode) && (slices.Contains(restless, name) || slices.Contains(restless, path.Dir(name))) || name == "/etc/mtab" && mode&unix.S_IFMT != unix.S_IFDIR || ephemeralUnit(name, mode)
	})
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("/etc shows nothing")
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

// passive reports whether mode is that of a plain file that is not executable. A path excepted by
// name is excepted only while it is such a file.
func passive(mode uint32) bool { return mode&unix.S_IFMT == unix.S_IFREG && mode&0o111 == 0 }

var ephemeral = regexp.MustCompile(`^/run/systemd/transient/(session-[^/]*\.scope|init\.scope|user@[0-9]+\.service)$`)

// ephemeralUnit reports whether systemd created the unit file for a login or for its own mounts.
func ephemeralUnit(name string, mode uint32) bool {
	return passive(mode) && ephemeral.MatchString(name)
}

// lookLoginFiles compares the files that a login runs, for all users and for each known user.
func lookLoginFiles(ctx context.Context, v *validation) ([]item, error) {
	names, err := v.tree(ctx, []string{"/etc"}, func(name string, mode uint32) bool {
		return mode&unix.S_IFMT != unix.S_IFDIR && rowOf(name) != "login_files"
	})
	if err != nil {
		return nil, err
	}
	var own []string
	for home := range v.homes {
		for _, f := range []string{".profile", ".bash_profile", ".bash_login", ".bashrc", ".bash_logout", ".bash_aliases", ".zshenv", ".zprofile", ".zshrc", ".zlogin", ".pam_environment", ".login", ".cshrc", ".tcshrc", ".inputrc", ".vimrc", ".gdbinit", ".forward", ".xsession", ".xprofile", ".gitconfig"} {
			own = append(own, path.Join(home, f))
		}
	}
	below, err := v.inHomes(ctx, ".config/systemd", ".config/environment.d", ".config/autostart", ".local/share/systemd", ".local/bin", "bin")
	if err != nil {
		return nil, err
	}
	return v.homeFiles(ctx, "login_files", own, append(names, below...))
}

// lookKeys compares everything in each known user's .ssh except known_hosts.
func lookKeys(ctx context.Context, v *validation) ([]item, error) {
	names, err := v.inHomes(ctx, ".ssh")
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains([]string{"known_hosts", "known_hosts.old"}, path.Base(name))
	})
	return v.homeFiles(ctx, "authorized_keys", nil, names)
}

func (v *validation) inHomes(ctx context.Context, dirs ...string) ([]string, error) {
	if len(v.homes) == 0 {
		return nil, errors.New("no user's home is known")
	}
	var tops []string
	for home := range v.homes {
		for _, dir := range dirs {
			tops = append(tops, path.Join(home, dir))
		}
	}
	return v.tree(ctx, tops, func(string, uint32) bool { return false })
}

// homeFiles compares optional files (may) and listed files (listed). Missing optional files are
// ignored; a listed file that is gone makes the look fail with unrest.
func (v *validation) homeFiles(ctx context.Context, row string, may, listed []string) ([]item, error) {
	records, err := v.records(ctx, append(may, listed...), row == "login_files")
	if err != nil {
		return nil, err
	}
	var went error
	records = slices.DeleteFunc(records, func(f taskcatalog.BaselineFile) bool {
		if f.Digest == machine.FileMissing && slices.Contains(listed, f.Path) {
			went = &unrest{changedMeanwhile(f.Path)}
		}
		return f.Digest == machine.FileMissing
	})
	return v.compareFiles(row, records, func(name string) bool { return rowOf(name) == row }, func(string) string { return row }), went
}

// lookBoot compares the kernel, its first root file system and the boot loader.
func lookBoot(ctx context.Context, v *validation) ([]item, error) {
	names, err := v.tree(ctx, []string{"/boot", "/etc"}, func(name string, mode uint32) bool {
		return passive(mode) && path.Base(name) == "grubenv" || mode&unix.S_IFMT != unix.S_IFDIR && (rowOf(name) != "boot" || v.packaged(name) && strings.HasPrefix(name, "/boot/"))
	})
	if err != nil {
		return nil, err
	}
	records, err := v.records(ctx, names, true)
	if err != nil {
		return nil, err
	}
	return v.compareFiles("boot", records, func(name string) bool { return rowOf(name) == "boot" }, func(string) string { return "boot" }), nil
}

// lookPrograms compares the files in program directories that no package brought.
func lookPrograms(ctx context.Context, v *validation) ([]item, error) {
	names, err := v.unpackaged(ctx, []string{"/usr", "/opt"}, func(name string, mode uint32) bool {
		return strings.HasPrefix(name, "/usr/lib/hostler-agent/") || strings.HasPrefix(name, "/usr/local/lib/systemd/") || noProgram(name, mode)
	})
	if err != nil {
		return nil, err
	}
	records, err := v.records(ctx, names, false)
	if err != nil {
		return nil, err
	}
	mine := func(name string) bool { return rowOf(name) == "programs" && !v.packaged(name) }
	return v.compareFiles("programs", records, mine, func(string) string { return "programs" }), nil
}

// noProgram reports whether a path is documentation, a cache of the desktop, or an interpreter's
// compiled cache: nothing runs a plain file or a link there.
func noProgram(name string, mode uint32) bool {
	if path.Base(path.Dir(name)) == "__pycache__" {
		return passive(mode) && slices.Contains([]string{".pyc", ".nbi", ".nbc"}, path.Ext(name))
	}
	quiet := documentation(name) || slices.ContainsFunc([]string{"/usr/share/mime/", "/usr/share/icons/", "/usr/share/fonts/"}, func(dir string) bool { return strings.HasPrefix(name, dir) })
	return quiet && (passive(mode) || mode&unix.S_IFMT == unix.S_IFLNK)
}

// maxTree bounds the watched files of a look.
const maxTree = 300_000

// tree lists, sorted, all entries below tops except directories, on every local file system mounted
// there. A top that is a link or a file is listed itself; a missing top is empty.
func (v *validation) tree(ctx context.Context, tops []string, skip func(name string, mode uint32) bool) (names []string, err error) {
	err = still(ctx, func() (moved string, err error) {
		names, moved, err = v.treeOnce(ctx, tops, skip)
		return moved, err
	})
	return names, err
}

// treeOnce is a single attempt of tree; moved names a path that changed meanwhile.
func (v *validation) treeOnce(ctx context.Context, tops []string, skip func(name string, mode uint32) bool) (names []string, moved string, err error) {
	var within []string
	var failed error
	since := machine.ChangeClock()
	changed := func(p string) { moved = changedMeanwhile(p) }
	for tops := slices.Clone(tops); len(tops) > 0; {
		top := tops[0]
		tops, within = tops[1:], nil
		t := machine.Tree{
			Look: func(e *machine.Entry) {
				if !e.IsDir() {
					if name := e.Path(); !skip(name, e.Stat.Mode) && len(names) <= maxTree {
						names = append(names, name)
					}
				}
			},
			Enter: func(e *machine.Entry) bool { return !skip(e.Path(), e.Stat.Mode) },
			Gone:  changed, Changed: changed, Since: since,
			Fault: func(p string, err error) {
				switch {
				case errors.Is(err, machine.ErrMount):
					within = append(within, p)
				case failed == nil:
					failed = fmt.Errorf("cannot look at %s: %w", p, err)
				}
			},
		}
		switch _, err := v.m.Empty(ctx, top, t); {
		case err == nil, errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
			names = append(names, top)
		default:
			return nil, "", err
		}
		if len(within) == 0 {
			continue
		}
		mounts, err := v.m.Mounts()
		if err != nil {
			return nil, "", err
		}
		for _, p := range within {
			if mt, ok := machine.Covering(mounts, p); ok && mt.Local() {
				tops = append(tops, p)
			}
		}
	}
	switch {
	case moved != "":
		return nil, moved, nil
	case failed == nil:
		failed = v.triggered(tops, skip)
	}
	if failed != nil {
		return nil, "", failed
	}
	if len(names) > maxTree {
		return nil, "", fmt.Errorf("more than %d files to compare", maxTree)
	}
	slices.Sort(names)
	return slices.Compact(names), "", nil
}

// triggered refuses an automount below tops with nothing mounted on it: nobody has seen the file
// system behind it.
func (v *validation) triggered(tops []string, skip func(name string, mode uint32) bool) error {
	mounts, err := v.m.Mounts()
	if err != nil {
		return nil // lookMounts reports the error; findings here still count
	}
	for _, mt := range mounts {
		if on, _ := machine.Covering(mounts, mt.Point); mt.Type != "autofs" || on != mt {
			continue
		}
		for _, top := range tops {
			dir := mt.Point
			for machine.Under(dir, top) && !skip(dir, unix.S_IFDIR) {
				dir = path.Dir(dir)
			}
			if dir == top {
				return fmt.Errorf("cannot look at %s: an automount that nothing is mounted on", clean(mt.Point))
			}
		}
	}
	return nil
}

// records looks at files. A conffile unchanged since its package brought it is left out: the
// package's pin vouches for it.
func (v *validation) records(ctx context.Context, names []string, etc bool) ([]taskcatalog.BaselineFile, error) {
	var records []taskcatalog.BaselineFile
	var again []string
	take := func(q machine.FileQuery, s machine.FileState) {
		switch {
		case q.MD5 != "" && s.As && s.UID == 0 && s.Mode&0o022 == 0:
		case q.MD5 != "":
			again = append(again, q.Path)
		default:
			records = append(records, taskcatalog.BaselineFile{Path: clean(q.Path), Digest: clean(s.Digest), Mode: s.Mode, UID: s.UID})
		}
	}
	err := v.m.FileStates(ctx, func(yield func(machine.FileQuery) bool) {
		for _, name := range names {
			q := machine.FileQuery{Path: name, Without: dated[name]}
			if etc {
				q.MD5 = v.conf[name]
			}
			if !yield(q) {
				return
			}
		}
	}, take)
	if err == nil && len(again) > 0 {
		err = v.m.FileStates(ctx, func(yield func(machine.FileQuery) bool) {
			for _, name := range slices.Clone(again) {
				if !yield(machine.FileQuery{Path: name}) {
					return
				}
			}
		}, take)
	}
	sortFiles(records)
	return records, err
}

func sortFiles(files []taskcatalog.BaselineFile) {
	slices.SortFunc(files, func(a, b taskcatalog.BaselineFile) int { return cmp.Compare(a.Path, b.Path) })
}

// compareFiles compares the records of a look with the look's part of the baseline: the paths for
// which mine reports true.
func (v *validation) compareFiles(look string, records []taskcatalog.BaselineFile, mine func(string) bool, row func(string) string) []item {
	if v.taking {
		v.files[look] = rollUp(records)
		return nil
	}
	if v.base == nil {
		return nil
	}
	before, rolls := map[string]taskcatalog.BaselineFile{}, []string{}
	for _, files := range [][]taskcatalog.BaselineFile{v.base.Files, v.base.Units} {
		for _, f := range files {
			before[f.Path] = f
			if strings.HasSuffix(f.Path, "/*") || strings.HasSuffix(f.Path, "/**") {
				rolls = append(rolls, f.Path)
			}
		}
	}
	var items []item
	differ := func(f taskcatalog.BaselineFile, detail string) {
		items = append(items, item{row: row(f.Path), key: f.Path, differs: true, stranger: !v.knows(f.UID), finding: taskcatalog.Finding{UID: &f.UID, Detail: detail, NextAction: taskcatalog.ActionReimage}})
	}
	seen := map[string]bool{}
	for _, is := range rollAs(records, rolls) {
		seen[is.Path] = true
		was, there := before[is.Path]
		switch {
		case !there && look == "packages":
			differ(is, "is not as its package brought it: "+state(is))
		case !there && is.Digest == machine.FileMissing:
			differ(is, "its package's file is gone")
		case !there && v.conf[is.Path] != "":
			differ(is, "a conffile that is not as its package brought it: "+state(is))
		case !there:
			differ(is, "the baseline does not have it: "+state(is))
			if cleanup.ContainerUnit(is.Path) {
				items[len(items)-1].finding.NextAction = taskcatalog.ActionStorageCleanup
			}
		case was != is:
			differ(is, "was "+state(was)+", is "+state(is))
		}
	}
	for name, was := range before {
		if !seen[name] && mine(name) && was.Digest != machine.FileMissing && v.conf[name] == "" {
			differ(was, "is gone")
		}
	}
	return items
}

func state(f taskcatalog.BaselineFile) string {
	if f.Mode == 0 && f.UID == 0 {
		return f.Digest
	}
	return fmt.Sprintf("%s mode %04o uid %d", f.Digest, f.Mode, f.UID)
}

// Bounds of the baseline lines for the files of one look.
const (
	maxInDir   = 40   // of one directory
	maxRecords = 1200 // of one look
)

// rollUp merges each crowded directory into one line and, while there are still too many lines,
// each whole tree.
func rollUp(records []taskcatalog.BaselineFile) []taskcatalog.BaselineFile {
	count := map[string]int{}
	for _, r := range records {
		count[path.Dir(r.Path)]++
	}
	var rolls []string
	for dir, n := range count {
		if slices.Contains(crowded, dir) || n > maxInDir && dir != "/etc" {
			rolls = append(rolls, dir+"/*")
		}
	}
	out := rollAs(records, rolls)
	for depth := 6; len(out) > maxRecords && depth > 1; depth-- {
		trees := map[string]bool{}
		for _, r := range records {
			if parts := strings.SplitN(r.Path, "/", depth+2); len(parts) == depth+2 {
				trees[strings.Join(parts[:depth+1], "/")+"/**"] = true
			}
		}
		rolls = rolls[:0]
		for t := range trees {
			rolls = append(rolls, t)
		}
		out = rollAs(records, rolls)
	}
	return out
}

// rollAs merges the records below each of rolls into one line.
func rollAs(records []taskcatalog.BaselineFile, rolls []string) []taskcatalog.BaselineFile {
	roll := map[string]bool{}
	for _, r := range rolls {
		roll[r] = true
	}
	groups := map[string][]taskcatalog.BaselineFile{}
	var out []taskcatalog.BaselineFile
	for _, r := range records {
		into := path.Dir(r.Path) + "/*"
		if !roll[into] {
			into = ""
		}
		for dir := path.Dir(r.Path); dir != "/" && dir != "."; dir = path.Dir(dir) {
			if roll[dir+"/**"] {
				into = dir + "/**"
			}
		}
		if into == "" {
			out = append(out, r)
			continue
		}
		groups[into] = append(groups[into], r)
	}
	for name, group := range groups {
		sortFiles(group)
		h := sha256.New()
		for _, f := range group {
			fmt.Fprintf(h, "%q %s %o %d\n", f.Path, f.Digest, f.Mode, f.UID)
		}
		out = append(out, taskcatalog.BaselineFile{Path: name, Digest: hex.EncodeToString(h.Sum(nil)[:16])})
	}
	sortFiles(out)
	return out
}
