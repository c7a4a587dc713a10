package command

import (
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// searchPath is where programs and interpreters find others. It excludes /usr/local, because some
// distributions let a group write there.
const searchPath = "/usr/sbin:/usr/bin:/sbin:/bin"

// baseEnvironment is the environment of every program.
var baseEnvironment = []string{"PATH=" + searchPath, "LANG=C.UTF-8", "HOME=/"}

// environment is a program's whole environment.
func (r *Runner) environment(p *profiles.CommandProfile) []string {
	env := append([]string(nil), baseEnvironment...)
	for _, name := range p.EnvPassthrough {
		if value, ok := r.Environ(name); ok {
			env = append(env, name+"="+strings.ReplaceAll(value, "\x00", ""))
		}
	}
	return env
}

// credential returns the account to run as: nil for root itself.
func (r *Runner) credential(name string) (*syscall.Credential, error) {
	if name == "root" && os.Geteuid() == 0 {
		return nil, nil
	}
	c, err := r.Account(name)
	if err != nil {
		return nil, taskcatalog.Errorf(CodeAccountUnknown, "cannot run as %s: %s", name, taskcatalog.Clean(err.Error(), 200))
	}
	return c, nil
}

// account finds a local account with its groups.
func account(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	c := &syscall.Credential{}
	for text, into := range map[string]*uint32{u.Uid: &c.Uid, u.Gid: &c.Gid} {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, err
		}
		*into = uint32(n)
	}
	for _, id := range ids {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, err
		}
		c.Groups = append(c.Groups, uint32(n))
	}
	return c, nil
}
