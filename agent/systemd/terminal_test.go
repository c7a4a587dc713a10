package systemd

import (
	"testing"
	"time"

	"github.com/hostler/hostler/agent/terminal/unit"
)

// The types must be systemd's: it refuses the whole unit for a single wrong type.
func TestASessionsUnitSaysAllOfIt(t *testing.T) {
	all := terminalProperties(unit.Spec{
		Unit: "hostler-terminal-ts-7k2m4q6s.service", Description: "of alice", Slice: unit.Slice, SessionID: "ts-7k2m4q6s",
		Start: []string{"/usr/lib/hostler-agent/versions/1.0.0/hostler-agent", "session", "ts-7k2m4q6s"}, After: []string{"/usr/bin/hostler-agent", "session-ended", "ts-7k2m4q6s"},
		Directory: "hostler-terminal/ts-7k2m4q6s", Longest: time.Hour,
	})
	got := map[string]string{}
	for _, p := range all {
		if _, twice := got[p.Name]; twice {
			t.Errorf("%s is set twice", p.Name)
		}
		got[p.Name] = p.Value.String()
		if p.Value.Signature().String() != map[string]string{
			"Description": "s", "Type": "s", "NotifyAccess": "s", "ExecStart": "a(sasb)", "ExecStopPost": "a(sasb)", "Slice": "s", "CollectMode": "s",
			"KillMode": "s", "SendSIGHUP": "b", "TimeoutStartUSec": "t", "TimeoutStopUSec": "t", "RuntimeMaxUSec": "t", "RuntimeDirectory": "as",
			"RuntimeDirectoryMode": "u", "TasksMax": "t", "OOMPolicy": "s", "LimitCORE": "t", "LimitCORESoft": "t", "LimitNPROC": "t", "LimitNPROCSoft": "t", "IgnoreSIGPIPE": "b",
			"SyslogIdentifier": "s", "LogExtraFields": "aay",
		}[p.Name] {
			t.Errorf("%s is of type %s", p.Name, p.Value.Signature())
		}
	}
	for name, want := range map[string]string{
		"KillMode": `"control-group"`, "SendSIGHUP": "true", "RuntimeMaxUSec": "@t 3600000000", "RuntimeDirectoryMode": "@u 448", "OOMPolicy": `"continue"`,
		"ExecStart": `[("/usr/lib/hostler-agent/versions/1.0.0/hostler-agent", ["/usr/lib/hostler-agent/versions/1.0.0/hostler-agent", "session", "ts-7k2m4q6s"], false,)]`,
	} {
		if got[name] != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
	var tasks, ofUser uint64
	for _, p := range all {
		switch p.Name {
		case "TasksMax":
			tasks = p.Value.Value().(uint64)
		case "LimitNPROC":
			ofUser = p.Value.Value().(uint64)
		}
	}
	if ofUser == 0 || ofUser+256 > tasks {
		t.Errorf("a user may have %d tasks of %d", ofUser, tasks)
	}
	// These would end a session with the agent, or keep its user's sudo from working.
	for _, bad := range []string{"PartOf", "BindsTo", "Requires", "NoNewPrivileges", "CapabilityBoundingSet", "Environment", "UMask"} {
		if _, set := got[bad]; set {
			t.Errorf("%s is set", bad)
		}
	}
}
