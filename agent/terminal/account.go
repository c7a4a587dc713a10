package terminal

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// account is the user as whom the program runs.
type account struct {
	machine.User
	groups []uint32 // supplementary groups
}

// userName matches the allowed user names: no name can form a path, a line of a file or an option.
var userName = lazyregexp.New(`^[a-z_][a-z0-9_-]{0,30}$`)

// findAccount reads a user from the machine's own files. A user who is root, or can become root by
// a group, is allowed only with root; the second kind also with sudo. Codes: terminal_user_unknown,
// terminal_user_refused, terminal_shell_refused, terminal_account_expired, terminal_logins_off.
func findAccount(m *machine.Machine, name string, root, sudo bool) (account, error) {
	if !userName.MatchString(name) {
		return account{}, taskcatalog.Errorf(CodeUserRefused, "cannot open a terminal: %q is not a user name", taskcatalog.Clean(name, 40))
	}
	user, known, err := m.UserNamed(name)
	if err != nil {
		return account{}, err
	}
	if !known {
		return account{}, taskcatalog.Errorf(CodeUserUnknown, "cannot open a terminal: the node has no user %s (provision it first)", name)
	}
	a := account{User: user}
	if a.groups, err = groupsOf(m, name); err != nil {
		return account{}, err
	}
	if !root && (a.UID == 0 || a.GID == 0 || slices.Contains(a.groups, 0)) {
		return account{}, taskcatalog.Errorf(CodeUserRefused, "cannot open a terminal: %s is root, and the policy allows no root shell",
			name)
	}
	if !root && !sudo {
		if group, err := rootGroup(m, user); err != nil || group != "" {
			return account{},
				errors.Join(err, taskcatalog.Errorf(CodeUserRefused,
					"cannot open a terminal: %s can become root through its group %s, and the policy allows no root shell", name, group))
		}
	}
	if !plainPath(a.Home) {
		return account{}, taskcatalog.Errorf(CodeUserRefused, "cannot open a terminal: the home of %s is not an absolute path", name)
	}
	for _, check := range []func(*machine.Machine, machine.User) error{checkShell, checkExpiry, checkLoginsAllowed} {
		if err := check(m, a.User); err != nil {
			return account{}, err
		}
	}
	return a, nil
}

// noShells are no login shells, although some systems list them in /etc/shells.
var noShells = []string{"nologin", "false", "true", "sync", "halt", "shutdown"}

func groupsOf(m *machine.Machine, name string) ([]uint32, error) {
	lines, err := m.Groups() // name:gid:members
	if err != nil {
		return nil, err
	}
	gids := []uint32{}
	for _, line := range lines {
		f := strings.Split(line, ":")
		if !slices.Contains(strings.Split(f[2], ","), name) {
			continue
		}
		gid, err := strconv.ParseUint(f[1], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("cannot read groups: %w", err)
		}
		gids = append(gids, uint32(gid))
	}
	return gids, nil
}

// rootGroup returns the group by which a user can become root, or "". Rules for the user's own name
// in the files of sudo are not read.
func rootGroup(m *machine.Machine, u machine.User) (string, error) {
	lines, err := m.Groups()
	if err != nil {
		return "", err
	}
	for _, line := range lines {
		f := strings.Split(line, ":")
		is := f[2] != "" && slices.Contains(strings.Split(f[2], ","), u.Name) || f[1] == strconv.FormatUint(uint64(u.GID), 10)
		if is && slices.Contains(machine.RootGroups, f[0]) {
			return f[0], nil
		}
	}
	return "", nil
}

// checkShell refuses a shell that is not in the node's /etc/shells. This excludes accounts without
// a login, and accounts whose passwd line was changed by somebody else.
func checkShell(m *machine.Machine, u machine.User) error {
	if !plainPath(u.Shell) {
		return taskcatalog.Errorf(CodeShellRefused, "cannot open a terminal: the shell of %s is not an absolute path", u.Name)
	}
	if slices.Contains(noShells, path.Base(u.Shell)) {
		return taskcatalog.Errorf(CodeShellRefused, "cannot open a terminal: logins as %s are disabled: its shell is %s", u.Name, u.Shell)
	}
	raw, err := m.ReadFile("/etc/shells", 64<<10)
	if err != nil {
		return fmt.Errorf("cannot read /etc/shells: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		if strings.TrimSpace(line) == u.Shell {
			return nil
		}
	}
	return taskcatalog.Errorf(CodeShellRefused, "cannot open a terminal: %s, the shell of %s, is not in /etc/shells", u.Shell, u.Name)
}

// checkExpiry refuses an account from the expiry day in its line of /etc/shadow on: a revoke first
// sets a day long past.
func checkExpiry(m *machine.Machine, u machine.User) error {
	expires, ok, err := m.Expiry(u.Name)
	if err != nil {
		return err
	}
	if ok && !time.Now().Before(expires) {
		return taskcatalog.Errorf(CodeAccountExpired, "cannot open a terminal: the account %s has expired on %s", u.Name,
			expires.UTC().Format(time.DateOnly))
	}
	return nil
}

// noLogins are files that forbid logins except root's while they exist.
var noLogins = []string{"/etc/nologin", "/run/nologin"}

func checkLoginsAllowed(m *machine.Machine, u machine.User) error {
	for _, name := range noLogins {
		_, err := m.Lstat(name)
		switch {
		case err == nil && u.UID != 0:
			return taskcatalog.Errorf(CodeLoginsOff, "cannot open a terminal: the node allows only root to log in while %s exists", name)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("cannot read whether logins are allowed: %w", err)
		}
	}
	return nil
}

// plainPath reports whether a path is absolute, clean, and text.
func plainPath(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && taskcatalog.Clean(p, 4096) == p
}
