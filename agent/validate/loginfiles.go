package validate

import (
	"context"
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

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
		for _, f := range []string{
			".profile", ".bash_profile", ".bash_login", ".bashrc", ".bash_logout", ".bash_aliases", ".zshenv",
			".zprofile", ".zshrc", ".zlogin", ".pam_environment", ".login", ".cshrc", ".tcshrc", ".inputrc", ".vimrc", ".gdbinit",
			".forward", ".xsession", ".xprofile", ".gitconfig",
		} {
			own = append(own, path.Join(home, f))
		}
	}
	below, err := v.inHomes(ctx, ".config/systemd", ".config/environment.d", ".config/autostart", ".local/share/systemd", ".local/bin",
		"bin")
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
			went = &unstableError{changedMeanwhile(f.Path)}
		}
		return f.Digest == machine.FileMissing
	})
	return v.compareFiles(row, records, func(name string) bool { return rowOf(name) == row }, func(string) string { return row }), went
}
