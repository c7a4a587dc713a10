package validate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	agentProgram = "usr/lib/hostler-agent/versions/test/hostler-agent"
	agentUnit    = "usr/lib/systemd/system/hostler-agent.service"
)

// installAgent puts the published agent on the machine, as the agent's package does.
func (w *whole) installAgent(t *testing.T) {
	t.Helper()
	p := taskcatalog.AgentPackage{Digest: "sha256:" + strings.Repeat("a", 64), Files: []taskcatalog.BaselineFile{
		{Path: "/usr/lib/hostler-agent/packaged", Digest: "link:versions/test"},
		{Path: "/usr/share/doc/hostler-agent/copyright", Digest: "left out by the image"},
	}}
	for name, of := range map[string]struct {
		text string
		mode os.FileMode
	}{agentProgram: {"the program", 0o755}, agentUnit: {"[Service]\n", 0o644}} {
		hosttest.Put(t, w.dir, name, of.text)
		hosttest.OK(t, os.Chmod(filepath.Join(w.dir, name), of.mode))
		sum := sha256.Sum256([]byte(of.text))
		p.Files = append(p.Files, taskcatalog.BaselineFile{Path: "/" + name, Digest: hex.EncodeToString(sum[:16]), Mode: uint32(of.mode), UID: uint32(os.Getuid())})
	}
	hosttest.OK(t, os.MkdirAll(filepath.Join(w.dir, "usr/bin"), 0o755))
	for name, to := range map[string]string{
		"usr/lib/hostler-agent/packaged": "versions/test", "usr/lib/hostler-agent/current": "versions/test",
		"usr/bin/hostler-agent": "../lib/hostler-agent/current/hostler-agent",
	} {
		hosttest.OK(t, os.Symlink(to, filepath.Join(w.dir, name)))
	}
	w.published = []taskcatalog.AgentPackage{p}
}

// linked replaces a path with a link that leads elsewhere.
func linked(name, elsewhere string) func(*testing.T, *whole) {
	return func(t *testing.T, w *whole) {
		t.Helper()
		at := filepath.Join(w.dir, name)
		hosttest.OK(t, os.MkdirAll(filepath.Join(w.dir, path.Dir(elsewhere)), 0o755))
		hosttest.OK(t, os.Rename(at, filepath.Join(w.dir, elsewhere)))
		hosttest.OK(t, os.Symlink("/"+elsewhere, at))
	}
}

func agentsOwn(r taskcatalog.Report) []string {
	var all []string
	for _, f := range r.Findings {
		if f.Check == taskcatalog.CheckAgent {
			all = append(all, f.Subject)
		}
	}
	slices.Sort(all)
	return all
}

// Root's changes to the agent itself are found, even if all records on the machine were changed
// too.
func TestAnAgentThatIsNotThePublishedOneIsFound(t *testing.T) {
	systemd := func(unit string, of ...string) func(*testing.T, *whole) {
		return func(_ *testing.T, w *whole) {
			w.h.Systemd = &hosttest.Systemd{UnitFiles: map[string][]string{unit: of}}
		}
	}
	const unit = "hostler-agent.service"
	for name, c := range map[string]struct {
		change func(t *testing.T, w *whole)
		found  string
	}{
		"a byte of the program":         {spoil(agentProgram, "The program"), "/" + agentProgram},
		"the program is gone":           {lose(agentProgram), "/" + agentProgram},
		"anybody may write it":          {func(t *testing.T, w *whole) { hosttest.OK(t, os.Chmod(filepath.Join(w.dir, agentProgram), 0o777)) }, "/" + agentProgram},
		"a link in the program's place": {linked(agentProgram, "opt/copy/hostler-agent"), "/" + agentProgram},
		"a link on the way to it":       {linked("usr/lib/hostler-agent/versions/test", "opt/copy/test"), "/usr/lib/hostler-agent/versions/test /" + agentProgram},
		"another version runs": {func(t *testing.T, w *whole) {
			hosttest.OK(t, os.Remove(filepath.Join(w.dir, "usr/lib/hostler-agent/current")))
			hosttest.OK(t, os.Symlink("versions/old", filepath.Join(w.dir, "usr/lib/hostler-agent/current")))
		}, "/usr/lib/hostler-agent/current"},
		"a program of its own in the path": {func(t *testing.T, w *whole) {
			hosttest.OK(t, os.Remove(filepath.Join(w.dir, "usr/bin/hostler-agent")))
			hosttest.Put(t, w.dir, "usr/bin/hostler-agent", "the program")
		}, "/usr/bin/hostler-agent"},
		"something beside it":              {spoil("usr/lib/hostler-agent/versions/old/hostler-agent", "x"), "/usr/lib/hostler-agent/versions/old/hostler-agent"},
		"the unit":                         {spoil(agentUnit, "[Service]\nEnvironment=LD_PRELOAD=/x\n"), "/" + agentUnit},
		"a unit that goes before it":       {spoil("etc/systemd/system/"+unit, "[Service]\n"), "/etc/systemd/system/" + unit},
		"one until the next boot":          {spoil("run/systemd/system/"+unit, "[Service]\n"), "/run/systemd/system/" + unit},
		"an addition":                      {spoil("etc/systemd/system/"+unit+".d/x.conf", "x"), "/etc/systemd/system/" + unit + ".d/x.conf"},
		"an addition by systemctl":         {spoil("etc/systemd/system.control/"+unit+".d/50-x.conf", "x"), "/etc/systemd/system.control/" + unit + ".d/50-x.conf"},
		"an addition until the next boot":  {spoil("run/systemd/system/"+unit+".d/x.conf", "x"), "/run/systemd/system/" + unit + ".d/x.conf"},
		"an addition beside the unit":      {spoil(agentUnit+".d/x.conf", "x"), "/" + agentUnit + ".d/x.conf"},
		"an addition for every service":    {spoil("etc/systemd/system/service.d/x.conf", "x"), "/etc/systemd/system/service.d/x.conf"},
		"an addition for units of a name":  {spoil("etc/systemd/system/hostler-.service.d/x.conf", "x"), "/etc/systemd/system/hostler-.service.d/x.conf"},
		"systemd has an addition":          {systemd(unit, "/usr/lib/systemd/system/"+unit, "/run/gone.d/x.conf"), "/run/gone.d/x.conf"},
		"systemd has another unit":         {systemd(unit, "/run/gone/"+unit), "/run/gone/" + unit},
		"systemd has a unit without files": {systemd(unit, ""), "(no file)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWhole(t)
			c.change(t, w)
			// A new baseline taken from the changed machine does not excuse the change.
			w.take(t)
			got, report := w.judge(t)
			if own := agentsOwn(report); got.Verdict != taskcatalog.VerdictNotClean || strings.Join(own, " ") != c.found {
				t.Errorf("%s, found %q, want %q; not made are %q", got.Verdict, own, c.found, notMade(t, report))
			}
		})
	}
}

func TestAnAgentOfWhichNobodyKnowsWhatItMustBeIsNoCleanOne(t *testing.T) {
	for name, change := range map[string]func(w *whole){
		"nothing is published":         func(w *whole) { w.published = nil },
		"another version is published": func(w *whole) { w.h.Version = "other" },
	} {
		w := newWhole(t)
		change(w)
		got, report := w.judge(t)
		if got.Verdict != taskcatalog.VerdictInconclusive || !slices.Equal(notMade(t, report), []string{"agent"}) || len(report.Findings) > 0 {
			t.Errorf("%s: %s, not made are %q, found %q", name, got.Verdict, notMade(t, report), told(report))
		}
		i := slices.IndexFunc(report.Checks, func(c taskcatalog.Check) bool { return c.Name == taskcatalog.CheckAgent })
		if why := report.Checks[i].Reason; !strings.HasPrefix(why, "agent_not_published: ") || !strings.Contains(why, "hostler agent-release publish") {
			t.Errorf("%s: %s", name, why)
		}
	}
}

// A version may be published more than once: the machine has one of the packages.
func TestTheAgentIsOneOfThePublishedPackagesOfItsVersion(t *testing.T) {
	w := newWhole(t)
	other := taskcatalog.AgentPackage{Digest: "sha256:" + strings.Repeat("b", 64), Files: slices.Clone(w.published[0].Files)}
	for i := range other.Files {
		other.Files[i].Digest = strings.Repeat("0", 32)
	}
	w.published = append([]taskcatalog.AgentPackage{other}, w.published...)
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictClean {
		t.Errorf("%s: %q", got.Verdict, told(report))
	}
	hosttest.Put(t, w.dir, agentProgram, "of neither")
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictNotClean || !slices.Equal(agentsOwn(report), []string{"/" + agentProgram}) {
		t.Errorf("%s: %q", got.Verdict, told(report))
	}
}

func TestAnAdditionThatTheSiteKnowsIsNoFinding(t *testing.T) {
	w := newWhole(t)
	w.policy = &taskcatalog.CleanPolicy{KnownUnits: []string{"site.conf"}}
	hosttest.Put(t, w.dir, "etc/systemd/system/hostler-agent.service.d/site.conf", "x")
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictClean {
		t.Errorf("%s: %q", got.Verdict, told(report))
	}
}

// Updates leave more files than the package brought: each is either published or a finding.
func TestWhatUpdatesLeftBesideTheAgentIsPublishedOrFound(t *testing.T) {
	const slot, good, packaged = "usr/lib/hostler-agent/versions/0.9.0/hostler-agent", "usr/lib/hostler-agent/good", "usr/lib/hostler-agent/packaged"
	for name, c := range map[string]struct {
		change func(t *testing.T, w *whole)
		found  string
	}{
		"as updates leave it": {func(*testing.T, *whole) {}, ""},
		"a slot was taken away": {func(t *testing.T, w *whole) {
			hosttest.OK(t, os.Remove(filepath.Join(w.dir, slot)))
			hosttest.OK(t, os.Remove(filepath.Join(w.dir, good)))
		}, ""},
		"good is the one that runs": {func(t *testing.T, w *whole) { relink(t, w, good, "versions/test") }, ""},
		"another program in a slot": {func(t *testing.T, w *whole) { hosttest.Put(t, w.dir, slot, "evil") }, "/" + slot},
		"a slot that nobody made": {func(t *testing.T, w *whole) {
			hosttest.Put(t, w.dir, "usr/lib/hostler-agent/versions/6.6.6/hostler-agent", "evil")
		}, "/usr/lib/hostler-agent/versions/6.6.6/hostler-agent"},
		"good leads elsewhere":     {func(t *testing.T, w *whole) { relink(t, w, good, "/tmp/evil") }, "/" + good},
		"packaged leads elsewhere": {func(t *testing.T, w *whole) { relink(t, w, packaged, "versions/6.6.6") }, "/" + packaged},
		"a link where a slot was":  {func(t *testing.T, w *whole) { relink(t, w, slot, "/tmp/evil") }, "/" + slot},
		"what was not judged stayed": {func(t *testing.T, w *whole) {
			hosttest.Put(t, w.dir, "usr/lib/hostler-agent/versions/.unverified-1/hostler-agent", "x")
		}, "/usr/lib/hostler-agent/versions/.unverified-1/hostler-agent"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWhole(t)
			p := &w.published[0]
			p.Files = slices.DeleteFunc(p.Files, func(f taskcatalog.BaselineFile) bool { return f.Path == "/"+packaged })
			sum := sha256.Sum256([]byte("an older program"))
			p.Slots = []taskcatalog.BaselineFile{
				{Path: "/" + slot, Digest: hex.EncodeToString(sum[:16]), Mode: 0o755, UID: uint32(os.Getuid())},
				{Path: "/" + packaged, Digest: "link:versions/0.8.0"},
				{Path: "/" + packaged, Digest: "link:versions/test"},
			}
			hosttest.Put(t, w.dir, slot, "an older program")
			hosttest.OK(t, os.Chmod(filepath.Join(w.dir, slot), 0o755))
			hosttest.OK(t, os.Symlink("versions/0.9.0", filepath.Join(w.dir, good)))
			c.change(t, w)
			w.take(t)
			_, report := w.judge(t)
			if found := agentsOwn(report); c.found == "" && len(found) > 0 || c.found != "" && !slices.Contains(found, c.found) {
				t.Errorf("found %q, want %q", found, c.found)
			}
		})
	}
}

func relink(t *testing.T, w *whole, name, to string) {
	t.Helper()
	hosttest.OK(t, os.Remove(filepath.Join(w.dir, name)))
	hosttest.OK(t, os.Symlink(to, filepath.Join(w.dir, name)))
}

func TestAnAgentWhoseUnitCannotBeAskedForIsNoCleanOne(t *testing.T) {
	w := newWhole(t)
	w.h.Systemd = deafSystemd{&hosttest.Systemd{}}
	if got, report := w.judge(t); got.Verdict != taskcatalog.VerdictInconclusive || !slices.Equal(notMade(t, report), []string{"agent"}) {
		t.Errorf("%s, not made are %q", got.Verdict, notMade(t, report))
	}
}

// A baseline holds nothing of this row: the agent must be as published.
func TestABaselineSaysNothingOfTheAgent(t *testing.T) {
	w := newWhole(t)
	w.published = nil
	w.take(t)
	if slices.Contains(w.base.NotTaken, taskcatalog.CheckAgent) {
		t.Errorf("%q", w.base.NotTaken)
	}
}

// deafSystemd cannot list the files of a unit.
type deafSystemd struct{ host.Systemd }

func (deafSystemd) Files(context.Context, string) (string, []string, error) {
	return "", nil, errors.New("the bus does not answer")
}
