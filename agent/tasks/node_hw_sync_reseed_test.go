package tasks

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/hwsync"
)

const machineToken = `{"endpoint":"http://10.0.0.2:5248/MAAS/metadata/status/abc123","consumer_key":"CKEY","token_key":"TKEY","token_secret":"TSECRET"}`

// reseed runs the task on a box with this machine token.
func reseed(t *testing.T, h *host.Host, params, token string) (*taskcatalog.HWSyncReseedResult, error) {
	t.Helper()
	typ, err := taskcatalog.Latest("node.hw_sync_reseed")
	if err != nil {
		t.Fatal(err)
	}
	p, err := typ.DecodeParams([]byte(params))
	if err != nil {
		t.Fatal(err)
	}
	var given []byte
	result, _, err := hwSyncReseed(t.Context(), &host.Run{Params: p, Host: h, Mint: func(_ context.Context, kind string) ([]byte, error) {
		if kind != taskcatalog.CredentialMAASMachineToken {
			t.Errorf("it asks for %s", kind)
		}
		given = []byte(token)
		return given, nil
	}})
	if len(bytes.Trim(given, "\x00")) > 0 {
		t.Error("the token is still in memory after the task")
	}
	if result == nil {
		return nil, err
	}
	return result.(*taskcatalog.HWSyncReseedResult), err
}

// syncing returns a box whose service succeeds when it is started.
func syncing(t *testing.T) (*host.Host, string, *hosttest.Systemd) {
	h, dir := hosttest.Box(t)
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, hwsync.Units), 0o755), os.MkdirAll(filepath.Join(dir, "etc"), 0o755)); err != nil {
		t.Fatal(err)
	}
	s := &hosttest.Systemd{Runs: map[string]host.UnitRun{}, On: map[string]bool{}}
	s.OnStart = func(unit string) error {
		s.On[unit] = unit == hwSyncTimer
		s.Runs[unit] = host.UnitRun{StartedAt: h.Now().Add(time.Second), FinishedAt: h.Now().Add(4 * time.Second), Result: "success"}
		return nil
	}
	h.Systemd = s
	return h, dir, s
}

func TestAReseedWritesStartsAndProves(t *testing.T) {
	h, dir, s := syncing(t)
	res, err := reseed(t, h, `{"interval_minutes":30}`, machineToken)
	if err != nil {
		t.Fatal(err)
	}
	if res.Credentials != written || res.Service != written || res.Timer != written || !res.TimerActive || res.SyncStartedAt.IsZero() {
		t.Errorf("%+v", res)
	}
	creds := hosttest.Read(t, dir, hwSyncCredentials)
	for _, want := range []string{"reporting:", "maas:", "consumer_key: CKEY", "token_secret: TSECRET", "endpoint: http://10.0.0.2:5248/MAAS/metadata/status/abc123"} {
		if !strings.Contains(creds, want) {
			t.Errorf("the credentials have no %q:\n%s", want, creds)
		}
	}
	st, err := os.Stat(filepath.Join(dir, hwSyncCredentials))
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if timer := hosttest.Read(t, dir, hwsync.Units+"/"+hwSyncTimer); !strings.Contains(timer, "OnCalendar=*-*-* *:00/30:00\n") {
		t.Errorf("the timer is\n%s", timer)
	}
	want := []string{"reload", "enable " + hwSyncTimer, "start " + hwSyncTimer, "start " + hwSyncService}
	if !slices.Equal(s.Asked, want) {
		t.Errorf("systemd was asked %q, want %q", s.Asked, want)
	}

	s.Asked = nil
	res, err = reseed(t, h, `{}`, machineToken)
	if err != nil || res.Credentials != kept || res.Service != kept || res.Timer != kept || !slices.Equal(s.Asked, want) {
		t.Errorf("again: %+v, %v, %q", res, err, s.Asked)
	}
	res, err = reseed(t, h, `{"reinstall":true}`, machineToken)
	if err != nil || res.Service != kept || res.Timer != written {
		t.Errorf("with another interval, anew: %+v, %v", res, err)
	}
}

func TestASyncThatIsNotProvenIsNoSuccess(t *testing.T) {
	now := func(h *host.Host, after time.Duration) time.Time { return h.Now().Add(after) }
	for code, c := range map[taskcatalog.Code]func(h *host.Host, s *hosttest.Systemd, unit string) error{
		"hw_sync_unproven": func(h *host.Host, s *hosttest.Systemd, unit string) error {
			s.On[hwSyncTimer] = true
			s.Runs[unit] = host.UnitRun{StartedAt: now(h, -time.Minute), FinishedAt: now(h, -time.Minute), Result: "success"}
			return nil
		},
		"hw_sync_failed": func(h *host.Host, s *hosttest.Systemd, unit string) error {
			s.On[hwSyncTimer] = true
			s.Runs[unit] = host.UnitRun{StartedAt: now(h, time.Second), FinishedAt: now(h, time.Second), Result: "exit-code", ExitStatus: 4}
			return errors.New("the job is failed")
		},
		"hw_sync_timer_inactive": func(h *host.Host, s *hosttest.Systemd, unit string) error {
			s.Runs[unit] = host.UnitRun{StartedAt: now(h, time.Second), FinishedAt: now(h, time.Second), Result: "success"}
			return nil
		},
	} {
		h, _, s := syncing(t)
		s.OnStart = func(unit string) error {
			if unit == hwSyncTimer {
				return nil
			}
			return c(h, s, unit)
		}
		if _, err := reseed(t, h, `{}`, machineToken); taskcatalog.CodeOf(err, "") != code {
			t.Errorf("want %s, got %v", code, err)
		}
	}
}

// A token stored by MAAS or an operator is not trusted as text of a unit.
func TestATokenThatIsNoneChangesNothing(t *testing.T) {
	with := func(old, new string) string { return strings.Replace(machineToken, old, new, 1) }
	for name, token := range map[string]string{
		"no JSON":                   "TSECRET",
		"a key more":                with(`{`, `{"consumer_secret":"x",`),
		"a path of another service": with("/MAAS/metadata/status/abc123", "/etc/passwd"),
		"a line more":               with("abc123", `abc123\nExecStart=/bin/true`),
		"a host with a space":       with("10.0.0.2:5248", "10.0.0.2 --post-file /etc/shadow"),
		"a specifier":               with("10.0.0.2:5248", "%h"),
		"a file":                    with("http://", "file://"),
		"a user":                    with("http://", "http://TSECRET@"),
		"a query":                   with("abc123", "abc123?x=1"),
		"an empty key":              with("CKEY", ""),
		"a key of two lines":        with("CKEY", `C\nKEY`),
	} {
		h, dir, s := syncing(t)
		_, err := reseed(t, h, `{}`, token)
		if taskcatalog.CodeOf(err, "") != "maas_machine_token_invalid" {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: the error holds the secret: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, hwSyncCredentials)); err == nil || len(s.Asked) > 0 {
			t.Errorf("%s: something was done: %q", name, s.Asked)
		}
	}
}

// A former root may have put a link in the place of the credentials.
func TestCredentialsAreNotWrittenThroughALink(t *testing.T) {
	for _, link := range []string{"etc/maas", hwSyncCredentials} {
		h, dir, _ := syncing(t)
		outside := t.TempDir()
		target := filepath.Join(outside, "target")
		at := filepath.Join(dir, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(target, at)); err != nil {
			t.Fatal(err)
		}
		if link == "etc/maas" {
			if err := os.Mkdir(target, 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(target, []byte("the tenant's"), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := reseed(t, h, `{}`, machineToken)
		if link == "etc/maas" && err == nil {
			t.Error("a directory that is a link was taken")
		}
		_ = filepath.WalkDir(outside, func(name string, d os.DirEntry, _ error) error {
			if raw, err := os.ReadFile(name); err == nil && bytes.Contains(raw, []byte("TSECRET")) {
				t.Errorf("%s: the secret is in %s", link, name)
			}
			return nil
		})
	}
}

// A former root may have put a service of their own in the place of MAAS's: the service would
// receive the credentials, and its success would prove nothing.
func TestAUnitThatIsNotMAASsOwnIsWrittenAnew(t *testing.T) {
	maas := "[Unit]\nDescription=MAAS hardware sync\nAfter=network-online.target\n[Service]\nType=oneshot\n" +
		"ExecStartPre=/usr/bin/wget -q -O /usr/bin/maas-run-scripts http://10.0.0.2:5248/MAAS/maas-run-scripts\n" +
		"ExecStartPre=/bin/chmod 0755 /usr/bin/maas-run-scripts\n" +
		"ExecStart=/usr/bin/maas-run-scripts report-results --config /etc/maas/maas-machine-creds.yml\n"
	instead := func(old, new string) string {
		if !strings.Contains(maas, old) {
			t.Fatalf("no %q in MAAS's own", old)
		}
		return strings.Replace(maas, old, new, 1)
	}
	for name, c := range map[string]struct {
		unit string
		want string
	}{
		"MAAS's own":              {maas, kept},
		"with comments":           {"# of MAAS\n; really\n\n" + maas, kept},
		"nothing run":             {instead("ExecStart=/usr/bin/maas-run-scripts report-results --config /etc/maas/maas-machine-creds.yml", "ExecStart=/bin/true"), written},
		"something after":         {maas + "ExecStartPost=/tmp/evil\n", written},
		"a shell before":          {instead("/bin/chmod 0755 /usr/bin/maas-run-scripts", "/bin/sh -c evil"), written},
		"an environment":          {maas + "Environment=LD_PRELOAD=/tmp/evil.so\n", written},
		"another download":        {instead("-O /usr/bin/maas-run-scripts http", "-O /etc/cron.d/x http"), written},
		"a download by a file":    {instead("wget -q -O", "wget -q --config=/tmp/wgetrc -O"), written},
		"another's rack":          {instead("10.0.0.2", "10.6.6.6"), written},
		"no download":             {instead("ExecStartPre=/usr/bin/wget", "# "), written},
		"another order":           {instead("[Service]\n", "[Service]\nExecStartPre=/bin/chmod +x /usr/bin/maas-run-scripts\n"), written},
		"something at its end":    {instead("[Service]", "OnSuccess=evil.service\n[Service]"), written},
		"something at its fault":  {instead("[Service]", "OnFailure=evil.service\n[Service]"), written},
		"something it wants":      {instead("[Service]", "Requires=evil.service\n[Service]"), written},
		"a network of its own":    {instead("[Service]", "Wants=network.target evil.service\n[Service]"), written},
		"an image over the root":  {maas + "ExtensionImages=/tmp/evil.raw\n", written},
		"a folder over the root":  {maas + "ExtensionDirectories=/tmp/evil\n", written},
		"another root":            {maas + "RootImage=/tmp/evil.raw\n", written},
		"a file system over it":   {maas + "TemporaryFileSystem=/usr\n", written},
		"a module for its logins": {maas + "PAMName=evil\n", written},
		"an output to a file":     {maas + "StandardOutput=file:/etc/cron.d/evil\n", written},
		"a line that goes on":     {instead("After=", "Documentation=x \\\nAfter="), written},
		"a line that hides one":   {instead("ExecStart=", "Documentation=x \\\nExecStart="), written},
		"a line that is none":     {maas + "evil\n", written},
		"a carriage return":       {instead("Type=oneshot\n", "Type=oneshot\rExecStartPost=/tmp/evil\n"), written},
		"a blank that is none":    {instead("ExecStart=", "\u00a0ExecStart="), written},
		"the wrong section":       {instead("[Service]", "[X-Service]"), written},
		"a section without end":   {instead("[Service]\n", "[Service\n"), written},
		"a service that stays":    {instead("oneshot", "forking"), written},
		"a start that is taken":   {maas + "ExecStart=\n", written},
		"a start in another unit": {maas + "[Install]\nAlso=evil.service\n", written},
		"nothing":                 {"", written},
	} {
		h, dir, _ := syncing(t)
		hosttest.Put(t, dir, hwsync.Units+"/"+hwSyncService, c.unit)
		res, err := reseed(t, h, `{}`, machineToken)
		if err != nil || res.Service != c.want {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	timer := "[Unit]\nDescription=Timer for MAAS hardware sync\n[Timer]\nOnCalendar=*-*-* *:00/15:00\nPersistent=true\n[Install]\nWantedBy=multi-user.target\n"
	for name, c := range map[string]struct{ unit, want string }{
		"MAAS's own":         {timer, kept},
		"by its name":        {timer + "[Timer]\nUnit=" + hwSyncService + "\n", kept},
		"another's":          {timer + "[Timer]\nUnit=evil.service\n", written},
		"something it wants": {"[Unit]\nWants=evil.service\n" + timer, written},
		"never":              {strings.Replace(timer, "OnCalendar=*-*-* *:00/15:00", "OnCalendar=", 1), written},
	} {
		h, dir, _ := syncing(t)
		hosttest.Put(t, dir, hwsync.Units+"/"+hwSyncTimer, c.unit)
		res, err := reseed(t, h, `{}`, machineToken)
		if err != nil || res.Timer != c.want {
			t.Errorf("timer, %s: %+v, %v", name, res, err)
		}
	}
	for _, over := range []string{"etc/systemd/system/" + hwSyncService, "etc/systemd/system/" + hwSyncService + ".d/x.conf", "run/systemd/system/" + hwSyncTimer, "etc/systemd/system/" + hwSyncTimer + ".wants/x.service"} {
		h, dir, s := syncing(t)
		hosttest.Put(t, dir, over, "[Service]\nExecStartPost=/tmp/evil\n")
		_, err := reseed(t, h, `{}`, machineToken)
		if taskcatalog.CodeOf(err, "") != "hw_sync_overridden" || len(s.Asked) > 0 {
			t.Errorf("%s: %v, %q", over, err, s.Asked)
		}
		if _, err := os.Stat(filepath.Join(dir, hwSyncCredentials)); err == nil {
			t.Errorf("%s: the credentials were written", over)
		}
	}
}

// Only systemd knows every file from which a unit is built: its answer counts, once it has read all
// of them again.
func TestAUnitThatSystemdReadsElsewhereGetsNoCredentials(t *testing.T) {
	at := func(dir, unit string) string { return dir + "/systemd/system/" + unit }
	ours := at("/usr/lib", hwSyncService)
	for name, files := range map[string][]string{
		"an addition for every service":    {ours, at("/etc", "service.d/x.conf")},
		"an addition for units of a name":  {ours, at("/usr/lib", "maas_.service.d/x.conf")},
		"a setting by systemctl":           {ours, "/etc/systemd/system.control/" + hwSyncService + ".d/50-Environment.conf"},
		"a generator's":                    {"/run/systemd/generator.early/" + hwSyncService},
		"an alias of another":              {at("/usr/lib", "evil.service")},
		"nothing":                          {""},
		"masked":                           {"/dev/null"},
		"a /lib that is no link":           {at("/lib", hwSyncService)},
		"a path that is another's further": {"/usr" + ours},
	} {
		for _, unit := range []string{hwSyncService, hwSyncTimer} {
			h, dir, s := syncing(t)
			mine := slices.Clone(files)
			for i, f := range mine {
				mine[i] = strings.ReplaceAll(f, hwSyncService, unit)
			}
			s.UnitFiles = map[string][]string{unit: mine}
			_, err := reseed(t, h, `{}`, machineToken)
			if taskcatalog.CodeOf(err, "") != "hw_sync_overridden" || !slices.Equal(s.Asked, []string{"reload"}) {
				t.Errorf("%s, %s: %v, %q", unit, name, err, s.Asked)
			}
			if _, err := os.Stat(filepath.Join(dir, hwSyncCredentials)); err == nil {
				t.Errorf("%s, %s: the credentials were written", unit, name)
			}
		}
	}
}

func TestAUnitThatSystemdNamesByALinkIsTheInstalledOne(t *testing.T) {
	for to, fine := range map[string]bool{"usr/lib": true, "/usr/lib": true, "usr/local/lib": false} {
		h, dir, s := syncing(t)
		if err := os.Symlink(to, filepath.Join(dir, "lib")); err != nil {
			t.Fatal(err)
		}
		s.UnitFiles = map[string][]string{hwSyncService: {"/lib/systemd/system/" + hwSyncService}, hwSyncTimer: {"/lib/systemd/system/" + hwSyncTimer}}
		if _, err := reseed(t, h, `{}`, machineToken); (err == nil) != fine {
			t.Errorf("/lib to %s: %v", to, err)
		}
	}
}

// A file written once is kept the next time.
func TestOurOwnUnitsAreTakenForMAASs(t *testing.T) {
	for _, minutes := range []int{5, 15, 30, 60} {
		f, err := renderHWSync([]byte(machineToken), minutes)
		if err != nil || !isMAASsService(f.Service, f.Rack) || !isMAASsTimer(f.Timer) {
			t.Errorf("%d minutes: %v\n%s\n%s", minutes, err, f.Service, f.Timer)
		}
	}
}
