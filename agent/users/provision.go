package users

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// Provision creates the account of an allocation: first the record, then the account, then the
// keys. After a crash in between, the same task finishes the account when it runs again, with the
// same uid.
func Provision(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	var report taskcatalog.Report
	p, h := r.Params.(*taskcatalog.ProvisionUserParams), r.Host
	if err := mayProvision(h, p); err != nil {
		return nil, report, err
	}
	keys, err := authorizedKeys(p.SSHKeys)
	if err != nil {
		return nil, report, err
	}
	account, known, err := h.Accounts.ByAllocation(p.AllocationID)
	if err != nil {
		return nil, report, err
	}
	if known && account.Username != p.Username {
		return nil, report, taskcatalog.Errorf("allocation_exists", "cannot provision %s: allocation %s has the user %s (revoke it first)",
			p.Username, p.AllocationID, account.Username)
	}
	if !known {
		if account, err = newAccount(h, p); err != nil {
			return nil, report, err
		}
	}
	account.Sudo = account.Sudo || p.Sudo
	if err := h.Accounts.Put(account); err != nil {
		return nil, report, err
	}
	r.Step("account", 1, 3)
	created, err := makeAccount(ctx, h, account)
	if err != nil {
		return nil, report, err
	}
	r.Step("keys", 2, 3)
	if err := writeKeys(h, account, keys); err != nil {
		return nil, report, fmt.Errorf("cannot write the keys of %s: %w", p.Username, err)
	}
	r.Step("rights", 3, 3)
	if p.Sudo {
		if err := grantSudo(ctx, h, account); err != nil {
			return nil, report, err
		}
	}
	if len(p.Groups) > 0 {
		if err := h.AccountTool(ctx, "usermod", "--append", "--groups", strings.Join(p.Groups, ","), p.Username); err != nil {
			return nil, report, err
		}
	}
	return &taskcatalog.ProvisionUserResult{UID: account.UID, GID: account.GID, Home: account.Home, Created: created}, report, nil
}

func mayProvision(h *host.Host, p *taskcatalog.ProvisionUserParams) error {
	if h.Marks.Drained() {
		return taskcatalog.Errorf(taskcatalog.CodeNodeDraining, "cannot provision %s: the node is drained (hostler node resume)",
			p.Username)
	}
	for _, g := range p.Groups {
		if strings.ContainsAny(g, ",:\n") || g == "" || strings.HasPrefix(g, "-") {
			return taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot provision %s: a group has an invalid name", p.Username)
		}
		if slices.Contains(machine.RootGroups, g) && !p.Sudo { // so that the broker knows of the tenant's root rights
			return taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot provision %s: group %s gives root (request sudo as well)",
				p.Username, g)
		}
	}
	accounts, err := h.Accounts.List()
	if err != nil {
		return err
	}
	for _, a := range accounts {
		if a.Username == p.Username && a.AllocationID != p.AllocationID {
			return taskcatalog.Errorf("user_exists", "cannot provision %s: the user belongs to allocation %s", p.Username, a.AllocationID)
		}
	}
	return nil
}

// newAccount chooses a uid that was never given before and that no account, group or process has.
// The name and the home must be free too.
func newAccount(h *host.Host, p *taskcatalog.ProvisionUserParams) (host.Account, error) {
	users, err := h.Machine.Users()
	if err != nil {
		return host.Account{}, err
	}
	home := "/home/" + p.Username
	for _, u := range users {
		if u.Name == p.Username {
			return host.Account{}, taskcatalog.Errorf("user_exists",
				"cannot provision %s: the node has a user of that name with uid %d, which no allocation created", p.Username, u.UID)
		}
	}
	groups, err := h.Machine.Groups()
	if err != nil {
		return host.Account{}, err
	}
	if there, gid := groupNamed(groups, p.Username); there {
		return host.Account{}, taskcatalog.Errorf("group_exists",
			"cannot provision %s: the node has a group of that name with gid %s (choose another name)", p.Username, gid)
	}
	if _, err := h.Machine.Lstat(home); !errors.Is(err, fs.ErrNotExist) {
		return host.Account{}, taskcatalog.Errorf("home_exists", "cannot provision %s: %s exists already (clean the node first)",
			p.Username, home)
	}
	running, err := h.Machine.Processes()
	if err != nil {
		return host.Account{}, err
	}
	for _, r := range running {
		if r.Unread != nil { // it may have any uid
			return host.Account{}, taskcatalog.Errorf("process_unread",
				"cannot provision %s: process %d may have the uid that the user would get: %v (find out what it is, end it, then try again)", p.Username, r.PID, r.Unread)
		}
	}
	for {
		uid, err := h.Accounts.NextUID()
		if err != nil {
			return host.Account{}, err
		}
		id := strconv.FormatUint(uint64(uid), 10)
		taken := slices.ContainsFunc(users, func(u machine.User) bool { return u.UID == uid || u.GID == uid }) ||
			slices.ContainsFunc(groups, func(g string) bool { return strings.Split(g, ":")[1] == id }) ||
			slices.ContainsFunc(running, func(p machine.Process) bool { return p.Has(uid) })
		if !taken {
			return host.Account{
				AllocationID: p.AllocationID, Username: p.Username, UID: uid, GID: uid, Home: home,
				CreatedAt: h.Now().UTC(),
			}, nil
		}
	}
}

// makeAccount creates the missing parts: group, user, home.
func makeAccount(ctx context.Context, h *host.Host, a host.Account) (created bool, err error) {
	id := strconv.FormatUint(uint64(a.UID), 10)
	user, there, err := h.Machine.UserNamed(a.Username)
	if err != nil {
		return false, err
	}
	if there && user.UID != a.UID {
		return false, taskcatalog.Errorf("user_changed", "cannot provision %s: its uid is now %d instead of %d (revoke the allocation)",
			a.Username, user.UID, a.UID)
	}
	if there {
		// useradd enters the account before it creates the home.
		if _, err := h.Machine.Lstat(a.Home); errors.Is(err, fs.ErrNotExist) {
			return false, h.Machine.MakeDir(a.Home, 0o700, int(a.UID), int(a.GID))
		}
		return false, nil
	}
	const groupExists = 9 // groupadd's exit code
	if err := h.AccountTool(ctx, "groupadd", "--gid", id, a.Username); err != nil && host.ExitCode(err) != groupExists {
		return false, err
	}
	// Without a password in its arguments useradd locks the password.
	err = h.AccountTool(ctx, "useradd", "--uid", id, "--gid", id, "--home-dir", a.Home, "--create-home",
		"--no-log-init", "--comment", "allocation "+a.AllocationID,
		"--shell", "/bin/bash", // allowed: the tenant's own login shell, which we never run
		a.Username)
	if err != nil {
		return false, err
	}
	return true, h.Machine.MakeDir(a.Home, 0o700, int(a.UID), int(a.GID))
}

// authorizedKeys accepts only plain public keys: an allocation may set no options such as command=
// or environment=.
func authorizedKeys(keys []string) ([]byte, error) {
	var b strings.Builder
	for i, k := range keys {
		f := strings.Fields(k)
		plain := len(f) >= 2 && len(k) <= 16<<10 && !strings.ContainsAny(k, "\n\r\x00") &&
			(strings.HasPrefix(f[0], "ssh-") || strings.HasPrefix(f[0], "ecdsa-sha2-") || strings.HasPrefix(f[0], "sk-"))
		if !plain {
			return nil, taskcatalog.Errorf(taskcatalog.CodeBadParams,
				"cannot provision: SSH key %d is not a plain public key (TYPE BASE64 COMMENT)", i+1)
		}
		b.WriteString(k + "\n")
	}
	return []byte(b.String()), nil
}

func writeKeys(h *host.Host, a host.Account, keys []byte) error {
	dir := path.Join(a.Home, ".ssh")
	if err := h.Machine.MakeDir(dir, 0o700, int(a.UID), int(a.GID)); err != nil {
		return err
	}
	return h.Machine.WriteFile(path.Join(dir, "authorized_keys"), keys, 0o600, int(a.UID), int(a.GID))
}

// grantSudo writes the user's sudoers line. The catalog's pattern for user names ensures that a
// name cannot change the meaning of the line.
func grantSudo(ctx context.Context, h *host.Host, a host.Account) error {
	if _, err := h.Machine.Lstat("/etc/sudoers.d"); err != nil {
		return taskcatalog.Errorf("sudo_missing", "cannot give %s root: /etc/sudoers.d does not exist (install sudo on the node)",
			a.Username)
	}
	file := host.SudoersFile(a.Username)
	if err := h.Machine.WriteFile(file, []byte(a.Username+" ALL=(ALL:ALL) NOPASSWD: ALL\n"), 0o440, 0, 0); err != nil {
		return err
	}
	if !h.Machine.Live() {
		return nil
	}
	if err := h.Program(ctx, "/usr/sbin/visudo", "--check", "--quiet", "--file="+file); err != nil {
		_, removed := h.Machine.RemoveAll(ctx, file, machine.Tree{Remove: machine.AllEntries})
		return errors.Join(err, removed)
	}
	return nil
}

// Probe reports after a crash whether the account exists.
func Probe(_ context.Context, h *host.Host, t *taskcatalog.Task) string {
	var allocation, username string
	row, err := taskcatalog.Lookup(t.Type, t.Version)
	if err != nil {
		return err.Error()
	}
	params, err := row.DecodeParams(t.Params)
	if err != nil {
		return err.Error()
	}
	switch q := params.(type) {
	case *taskcatalog.ProvisionUserParams:
		allocation, username = q.AllocationID, q.Username
	case *taskcatalog.RevokeUserParams:
		allocation, username = q.AllocationID, q.Username
	}
	_, recorded, err := h.Accounts.ByAllocation(allocation)
	if err != nil {
		return err.Error()
	}
	user, there, err := h.Machine.UserNamed(username)
	switch {
	case err != nil:
		return err.Error()
	case there:
		return fmt.Sprintf("user %s exists with uid %d; recorded for the allocation: %v", username, user.UID, recorded)
	}
	return fmt.Sprintf("there is no user %s; recorded for the allocation: %v", username, recorded)
}
