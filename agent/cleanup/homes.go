package cleanup

import (
	"context"
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// histories are the files in a home that record typed or executed commands.
var histories = []string{
	".bash_history", ".zsh_history", ".sh_history", ".ash_history", ".history", ".local/share/fish/fish_history",
	".python_history", ".node_repl_history", ".mysql_history", ".psql_history", ".sqlite_history", ".rediscli_history",
	".lesshst", ".viminfo", ".wget-hsts", ".nv/ComputeCache",
}

// homes removes the directories in /home that are not a known user's, and the histories of known
// users.
func (c *cleanup) homes(ctx context.Context) error {
	known := c.known.Homes()
	var all error
	for _, home := range known {
		for _, name := range histories {
			err := c.remove(ctx, "homes", path.Join(home, name))
			if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
				c.skip("homes", path.Join(home, name), "the path goes through a link, which the cleanup does not follow")
				continue
			}
			all = errors.Join(all, err)
		}
	}
	if c.known.Base == nil {
		c.skip("homes", "/home", "the node has no baseline, so the agent cannot tell a tenant's home from the node's own")
		return all
	}
	names, err := c.m.Names("/home")
	if err != nil {
		return errors.Join(all, err)
	}
	for _, name := range names {
		home := path.Join("/home", name)
		account := slices.IndexFunc(c.accounts, func(a host.Account) bool { return path.Clean(a.Home) == home })
		holds := slices.ContainsFunc(known, func(k string) bool { return k == home || machine.Under(k, home) })
		switch {
		case holds || c.known.Object("home/"+home):
		case name == "lost+found":
			all = errors.Join(all, c.empty(ctx, "homes", home,
				machine.Tree{Remove: func(e *machine.Entry) bool { return !c.known.Object("home/" + e.Path()) }}))
		case account >= 0:
			c.dispose("homes", home, taskcatalog.ActionKept, machine.Tally{},
				"allocation "+c.accounts[account].AllocationID+" still has its user ("+taskcatalog.ActionRevokeUser+" removes both)")
		default:
			all = errors.Join(all, c.remove(ctx, "homes", home))
		}
	}
	return all
}
