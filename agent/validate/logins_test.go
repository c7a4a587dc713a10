package validate

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAnOpenLoginAnswersForNoOtherSession(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.Put(t, dir, "proc/uptime", "900000.00 1.00\n")
	const slice = "/user.slice/user-1000.slice/"
	for _, p := range []struct {
		pid    int
		uid    uint32
		exe    string
		cgroup string
	}{
		{50, 0, "/usr/sbin/sshd", slice + "session-9.scope"},
		{51, 1000, "/usr/bin/bash", slice + "session-9.scope"},
		{52, 1000, "/usr/lib/systemd/systemd", slice + "user@1000.service/init.scope"},
		{53, 1000, "/usr/bin/bash", slice + "session-3.scope"},
		{54, 1000, "/usr/bin/sleep", slice + "session-90.scope/deeper"},
		{56, 0, "/usr/sbin/sshd", "/session of uid 1000"}, // a user with root can name a cgroup so
		{55, 0, "/usr/bin/bash", "/user.slice/user-0.slice/session-9.scope"},
	} {
		hosttest.Process(t, dir, p.pid, p.uid, p.exe, p.cgroup, "net:[4026531840]")
	}
	v := newLook(h, &taskcatalog.Baseline{})
	for _, exe := range []string{"/usr/sbin/sshd", "/usr/bin/bash", "/usr/bin/sleep", "/usr/lib/systemd/systemd"} {
		v.owned[pathHash(exe)] = struct{}{}
	}
	items, err := lookProcesses(t.Context(), v)
	hosttest.OK(t, err)
	var got []string
	for _, it := range items {
		if !it.differs { // PID 1 shows no files here
			got = append(got, it.finding.Subject)
		}
	}
	slices.Sort(got)
	if want := []string{"53 x", "54 x", "55 x", "56 x"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
