package machine

import (
	"path/filepath"
	"testing"
)

// The agent ends and removes everything with an account's ids. A range written by root must
// therefore not extend to other accounts.
func TestOnlyUIDsThatAreAnAccountsAloneAreItsOwn(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/bash\nalice:x:20001:20001::/home/alice:/bin/bash\ncarol:x:300000:300000::/home/carol:/bin/bash\n"
	for _, c := range []struct {
		name, subuid string
		lent, sure   bool
	}{
		{"her own", "alice:165536:65536\nbob:231072:65536\n", true, true},
		{"by her number", "20001:165536:65536\n", true, true},
		{"nothing", "bob:165536:65536\n", false, true},
		{"everybody", "alice:0:4294967295\n", false, false},
		{"the node's accounts", "alice:1000:65536\n", false, false},
		{"too many", "alice:165536:4000000\n", false, false},
		{"to beyond the end", "alice:4294900000:67296\n", false, false},
		{"another's too", "alice:165536:65536\nbob:165536:65536\n", false, false},
		{"a part of another's", "alice:165536:65536\nbob:160000:10000\n", false, false},
		{"another account", "alice:299000:65536\n", false, false},
		{"no number", "alice:many:1\n", false, false},
	} {
		m, dir := newMachine(t)
		write(t, filepath.Join(dir, "etc/passwd"), passwd)
		write(t, filepath.Join(dir, "etc/subuid"), c.subuid)
		ids, err := m.UIDsOf("alice", 20001)
		if len(ids.Lent) > 0 != c.lent || (err == nil) != c.sure || !ids.Has(20001) || ids.Has(0) || ids.Has(300000) {
			t.Errorf("%s: %+v, %v", c.name, ids, err)
		}
	}
}
