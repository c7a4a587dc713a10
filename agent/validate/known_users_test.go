package validate

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// The policy allows an account to exist. The policy does not allow the account another's uid or a
// login without a password.
func TestAKnownUsersNameIsNoLicence(t *testing.T) {
	h, dir := hosttest.Used(t)
	passwd, shadow := hosttest.Read(t, dir, "etc/passwd"), hosttest.Read(t, dir, "etc/shadow")
	hosttest.Put(t, dir, "etc/passwd", passwd+"backup:x:34:34::/var/backups:/usr/sbin/nologin\n")
	hosttest.Put(t, dir, "etc/shadow", shadow+"backup:*:20000:0:99999:7:::\n")
	taken := newLook(h, nil)
	_, err := lookUsers(t.Context(), taken)
	hosttest.OK(t, err)
	for _, test := range []struct {
		name, passwd, shadow, want string
	}{
		{"as it was", "backup:x:34:34::/var/backups:/usr/sbin/nologin", "backup:*", ""},
		{"an account of the site's", "backup:x:34:34::/var/backups:/usr/sbin/nologin\nops:x:1100:1100::/home/ops:/bin/bash", "backup:*:20000:0:99999:7:::\nops:$6$a$b", ""},
		{"uid 0 for the site's", "backup:x:34:34::/var/backups:/usr/sbin/nologin\nops:x:0:0::/home/ops:/bin/bash", "backup:*:20000:0:99999:7:::\nops:$6$a$b", "ops: an account that"},
		{"no password for the site's", "backup:x:34:34::/var/backups:/usr/sbin/nologin\nops:x:1100:1100::/home/ops:/bin/bash", "backup:*:20000:0:99999:7:::\nops:", "ops: an account that"},
		{"uid 0", "backup:x:0:34::/var/backups:/usr/sbin/nologin", "backup:*", "backup: uid was 34, is 0"},
		{"a shell", "backup:x:34:34::/var/backups:/bin/bash", "backup:*", "backup: shell was /usr/sbin/nologin, is /bin/bash"},
		{"a password", "backup:x:34:34::/var/backups:/usr/sbin/nologin", "backup:$6$a$b", "backup: the password was changed"},
	} {
		hosttest.Put(t, dir, "etc/passwd", passwd+test.passwd+"\n")
		hosttest.Put(t, dir, "etc/shadow", shadow+test.shadow+":20000:0:99999:7:::\n")
		v := newLook(h, &taskcatalog.Baseline{Users: taken.now.Users, Groups: taken.now.Groups})
		v.policy.KnownUsers = []string{"backup", "ops"}
		items, err := lookUsers(t.Context(), v)
		hosttest.OK(t, err)
		var got []string
		for _, it := range items {
			got = append(got, it.key+": "+it.finding.Detail)
		}
		if test.want == "" && len(got) > 0 || test.want != "" && !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, test.want) }) {
			t.Errorf("%s: found %q, want %q", test.name, got, test.want)
		}
		if _, root := v.users[0]; test.name == "uid 0 for the site's" && root && v.users[0] != "root" {
			t.Errorf("%s is known for root", v.users[0])
		}
	}
}
