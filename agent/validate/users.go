package validate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// lookUsers compares accounts, groups and logins, and learns the known users for the other looks.
func lookUsers(_ context.Context, v *validation) ([]item, error) {
	v.users, v.homes = map[uint32]string{}, map[string]uint32{}
	if v.base != nil { // users of the baseline are known, even if the accounts cannot be read
		for _, u := range v.base.Users {
			v.addKnownUser(u)
		}
	}
	users, err := v.m.Users()
	if err != nil {
		return nil, err
	}
	groups, err := v.m.Groups()
	if err != nil {
		return nil, err
	}
	logins, err := v.m.Logins()
	if err != nil {
		return nil, err
	}
	var items []item
	before := map[string]taskcatalog.BaselineUser{}
	if v.base != nil {
		for _, u := range v.base.Users {
			before[u.Name] = u
		}
	}
	v.now.Users, v.now.Groups = nil, nil
	for _, u := range users {
		is := taskcatalog.BaselineUser{
			Name: clean(u.Name), UID: u.UID, GID: u.GID, Home: clean(u.Home), Shell: clean(u.Shell),
			Login: logins[u.Name],
		}
		v.now.Users = append(v.now.Users, is)
		was, there := before[is.Name]
		delete(before, is.Name)
		switch {
		case v.takesBaseline:
			v.addKnownUser(is)
		case there && was == is:
		case !there && slices.Contains(v.policy.KnownUsers, u.Name) && !v.sharesUID(is) && is.Login != "none":
			v.addKnownUser(is) // the policy allows the account, but not another's uid and not a login without a password
		case there:
			items = append(items, item{
				row: "users", key: is.Name, differs: true,
				finding: taskcatalog.Finding{UID: &is.UID, Detail: userChange(was, is)},
			})
		default:
			items = append(items,
				v.owner(item{
					row: "users", key: is.Name, differs: true,
					finding: taskcatalog.Finding{Detail: "an account that is not in the baseline, " +
						uidText(is.UID)},
				}, is.UID, taskcatalog.ActionReimage))
		}
	}
	for name, was := range before {
		items = append(items, item{
			row: "users", key: name, differs: true,
			finding: taskcatalog.Finding{UID: &was.UID, Detail: "an account of the baseline that is gone"},
		})
	}
	for _, g := range groups {
		v.now.Groups = append(v.now.Groups, clean(g))
	}
	slices.Sort(v.now.Groups)
	lent, err := v.subordinate()
	return append(append(items, v.groups()...), lent...), err
}

// sharesUID reports whether an account has the uid of root, of a tenant or of an account of the
// baseline: files of such a uid do not belong to the account.
func (v *validation) sharesUID(u taskcatalog.BaselineUser) bool {
	return u.UID == 0 || host.TenantUID(u.UID) || v.base != nil &&
		slices.ContainsFunc(v.base.Users, func(b taskcatalog.BaselineUser) bool { return b.UID == u.UID })
}

// subordinate compares the uids and gids that accounts may lend to their containers. An
// allocation's are removed with its user.
func (v *validation) subordinate() ([]item, error) {
	var items []item
	for _, kind := range []string{"subuid", "subgid"} {
		has, err := v.m.Has("/etc/" + kind)
		if err != nil {
			return nil, err
		}
		if !has {
			continue
		}
		raw, err := v.m.ReadFile("/etc/"+kind, 4<<20)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(raw)) {
			line = strings.TrimSpace(line)
			name, _, _ := strings.Cut(line, ":")
			if line == "" || slices.Contains(v.policy.KnownUsers, name) {
				continue
			}
			it := item{row: "users", key: kind + "/" + line, finding: taskcatalog.Finding{Subject: kind + " of " + name, Detail: line}}
			if i := slices.IndexFunc(v.accounts, func(a host.Account) bool { return a.Username == name }); i >= 0 {
				it = v.owner(it, v.accounts[i].UID, taskcatalog.ActionRevokeUser)
			}
			items = append(items, it)
		}
	}
	return items, nil
}

func (v *validation) addKnownUser(u taskcatalog.BaselineUser) {
	v.users[u.UID] = u.Name
	if strings.HasPrefix(u.Home, "/root") || strings.HasPrefix(u.Home, "/home/") {
		v.homes[u.Home] = u.UID
	}
}

func userChange(was, is taskcatalog.BaselineUser) string {
	var changes []string
	for _, c := range []struct{ what, was, is string }{
		{"uid", fmt.Sprint(was.UID), fmt.Sprint(is.UID)},
		{"gid", fmt.Sprint(was.GID), fmt.Sprint(is.GID)},
		{"home", was.Home, is.Home},
		{"shell", was.Shell, is.Shell},
	} {
		if c.was != c.is {
			changes = append(changes, c.what+" was "+c.was+", is "+c.is)
		}
	}
	if was.Login != is.Login {
		changes = append(changes, "the password was changed")
		if is.Login == "none" {
			changes[len(changes)-1] = "the account needs no password any more"
		}
	}
	return strings.Join(changes, "; ")
}

// groups compares name:gid:members. An allocation's own group is removed with its user.
func (v *validation) groups() []item {
	if v.base == nil {
		return nil
	}
	var items []item
	for _, g := range v.now.Groups {
		if slices.Contains(v.base.Groups, g) {
			continue
		}
		name, rest, _ := strings.Cut(g, ":")
		it := item{
			row: "users", key: "group " + name, differs: true,
			finding: taskcatalog.Finding{Detail: "gid and members differ from the baseline: " + rest},
		}
		if i := slices.IndexFunc(v.accounts, func(a host.Account) bool {
			return a.Username == name || slices.Contains(strings.Split(rest, ","), a.Username)
		}); i >= 0 {
			it.tenant, it.finding.NextAction = true, taskcatalog.ActionRevokeUser
		}
		if slices.Contains(v.policy.KnownUsers, name) {
			continue
		}
		items = append(items, it)
	}
	for _, g := range v.base.Groups {
		name, _, _ := strings.Cut(g, ":")
		if !slices.ContainsFunc(v.now.Groups, func(s string) bool { return strings.HasPrefix(s, name+":") }) {
			items = append(items, item{
				row: "users", key: "group " + name, differs: true,
				finding: taskcatalog.Finding{Detail: "a group of the baseline that is gone"},
			})
		}
	}
	return items
}
