package steps

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

var rayJoin = taskcatalog.ClusterJoin{Node: "gpu-7", Controller: "head.example:6379", Auth: "token", Key: []byte("planted-key-of-the-cluster-32-byte")}

const (
	rayTokenFile = "etc/ray/auth_token"
	rayUnitFile  = "etc/systemd/system/hostler-ray.service"
	rayDrainFile = "etc/systemd/system/hostler-ray-drain@.service"
)

// joiningRay is a step that joins with a credential, on a node with an environment that has Ray.
func joiningRay(t *testing.T, c taskcatalog.ClusterJoin, environment string, labels ...string) (*Step, string) {
	t.Helper()
	s, dir := joining(t, c, labels...)
	s.Args["cluster"], s.Args["environment"] = "ray", environment
	hosttest.Put(t, dir, "etc/group", "root:x:0:\nvideo:x:44:\nstaff:x:50:\nrender:x:106:\n")
	return s, dir
}

func TestANodeJoinsRayWithTheTokenInAFile(t *testing.T) {
	needsRoot(t)
	c := rayJoin
	c.ID = "n-7"
	s, dir := joiningRay(t, c, "/opt/ray/env", "zone=a", "gpu.kind=h100")
	d := s.Host.Systemd.(*hosttest.Systemd)
	if look(t, s) {
		t.Error("a node is joined before it joins")
	}
	proof, err := do(t, s)
	if err != nil || proof.Message != "hostler-ray.service is active" {
		t.Fatal(proof, err)
	}
	info, err := os.Stat(filepath.Join(dir, rayTokenFile))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 || st.Mode&0o7777 != 0o400 || hosttest.Read(t, dir, rayTokenFile) != string(rayJoin.Key) {
		t.Errorf("the token is of %d, mode %o", st.Uid, st.Mode)
	}
	for file, want := range map[string]string{
		rayUnitFile:  "\nExecStart=/opt/ray/env/bin/ray start --block --address=head.example:6379 --node-name=gpu-7 --labels=zone=a,gpu.kind=h100,hostler.dev/node=n-7\n",
		rayDrainFile: "\nExecStart=/opt/ray/env/bin/ray drain-node --address=head.example:6379 --node-id=%i --reason=DRAIN_NODE_REASON_PREEMPTION --reason-message=hostler\n",
	} {
		unit := hosttest.Read(t, dir, file)
		if !strings.Contains(unit, want) || !strings.Contains(unit, "\nLoadCredential=auth_token:/etc/ray/auth_token\n") ||
			!strings.Contains(unit, "RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=%d/auth_token ") || !strings.Contains(unit, "\nDynamicUser=yes\n") || strings.Contains(unit, "planted") {
			t.Errorf("%s is %s", file, unit)
		}
	}
	if unit := hosttest.Read(t, dir, rayUnitFile); !strings.Contains(unit, "\nSupplementaryGroups=video render\n") {
		t.Errorf("the unit is %s", unit)
	}
	if want := []string{"reload", "enable hostler-ray.service", "restart hostler-ray.service"}; !slices.Equal(d.Asked, want) {
		t.Errorf("systemd was asked %q", d.Asked)
	}
	if state := s.Checkpoint.(*notes).state; strings.Contains(string(state), "planted") || strings.Contains(string(state), "head.example") {
		t.Errorf("the checkpoint is %s", state)
	}

	// A look of a later task has no credential, and finds what is no longer so.
	delete(s.Args, "credential")
	if !look(t, s) {
		t.Error("what was joined is not found")
	}
	for what, change := range map[string]func(){
		"Ray ended":             func() { d.On["hostler-ray.service"] = false },
		"another token":         func() { hosttest.Put(t, dir, rayTokenFile, "another") },
		"another unit":          func() { hosttest.Put(t, dir, rayUnitFile, "[Service]\n") },
		"another drain":         func() { hosttest.Put(t, dir, rayDrainFile, "[Service]\n") },
		"a token that all read": func() { _ = os.Chmod(filepath.Join(dir, rayTokenFile), 0o444) },
		"a token of a user's":   func() { _ = os.Chown(filepath.Join(dir, rayTokenFile), 1000, 0) },
		"no token":              func() { _ = os.Remove(filepath.Join(dir, rayTokenFile)) },
		"another checkpoint":    func() { s.Checkpoint.(*notes).state = []byte("?") },
		"Slurm's checkpoint":    func() { s.Checkpoint.(*notes).state = []byte(`{"auth":"munge","key":"k","unit":"u"}`) },
	} {
		s, dir = joiningRay(t, rayJoin, "/opt/ray/env")
		d = s.Host.Systemd.(*hosttest.Systemd)
		if _, err := do(t, s); err != nil {
			t.Fatal(err)
		}
		if change(); look(t, s) {
			t.Errorf("%s: the node counts as joined", what)
		}
		if _, err := do(t, s); err != nil || !look(t, s) {
			t.Errorf("%s: it cannot be joined again: %v", what, err)
		}
	}
	s, _ = joiningRay(t, rayJoin, "/opt/ray/env")
	s.Host.Systemd.(*hosttest.Systemd).Obeys = false
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != CodeUnitState {
		t.Errorf("Ray that does not run: %v", err)
	}
}

func TestAJoinOfRayIsRefused(t *testing.T) {
	needsRoot(t)
	with := func(change func(c *taskcatalog.ClusterJoin)) taskcatalog.ClusterJoin {
		c := rayJoin
		change(&c)
		return c
	}
	for name, row := range map[string]struct {
		c           taskcatalog.ClusterJoin
		environment string
		labels      []string
	}{
		"a label with an option":       {rayJoin, "/opt/ray/env", []string{"a=b --head"}},
		"a label that is no pair":      {rayJoin, "/opt/ray/env", []string{"gpu"}},
		"a label of two pairs":         {rayJoin, "/opt/ray/env", []string{"a=b,c=d"}},
		"a label of several lines":     {rayJoin, "/opt/ray/env", []string{"a=b\nExecStartPre=/bin/sh"}},
		"a label that ends with a dot": {rayJoin, "/opt/ray/env", []string{"a=b."}},
		"a long label":                 {rayJoin, "/opt/ray/env", []string{"a=" + strings.Repeat("b", 64)}},
		"a label of systemd":           {rayJoin, "/opt/ray/env", []string{"a=%h"}},
		"a variable":                   {rayJoin, "/opt/ray/env", []string{"a=$HOME"}},
		"an environment with more":     {rayJoin, "/opt/ray/env/bin/sh -c x #", nil},
		"an environment of systemd":    {rayJoin, "/opt/%u", nil},
		"an environment that is none":  {rayJoin, "", nil},
		"an environment further up":    {rayJoin, "/opt/ray/../../tmp", nil},
		"an environment that is short": {rayJoin, "env", nil},
		"a node with an option":        {with(func(c *taskcatalog.ClusterJoin) { c.Node = "n1 --head" }), "/opt/ray/env", nil},
		"a head with more":             {with(func(c *taskcatalog.ClusterJoin) { c.Controller = "head:6379,evil:6379" }), "/opt/ray/env", nil},
		"another authentication":       {with(func(c *taskcatalog.ClusterJoin) { c.Auth = "munge" }), "/opt/ray/env", nil},
		"no token":                     {with(func(c *taskcatalog.ClusterJoin) { c.Key = nil }), "/opt/ray/env", nil},
		"a short token":                {with(func(c *taskcatalog.ClusterJoin) { c.Key = c.Key[:31] }), "/opt/ray/env", nil},
		"a token of two lines":         {with(func(c *taskcatalog.ClusterJoin) { c.Key = append([]byte(nil), string(c.Key)+"\n"...) }), "/opt/ray/env", nil},
	} {
		s, dir := joiningRay(t, row.c, row.environment, row.labels...)
		_, err := do(t, s)
		if taskcatalog.CodeOf(err, "") != taskcatalog.CodePlanInvalid || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", name, err)
		}
		for _, file := range []string{rayTokenFile, rayUnitFile, rayDrainFile} {
			if _, err := os.Lstat(filepath.Join(dir, file)); err == nil {
				t.Errorf("%s: %s is written", name, file)
			}
		}
	}
	s, dir := joiningRay(t, rayJoin, "/opt/ray/env")
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "etc/ray")); err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != taskcatalog.CodePathRefused {
		t.Errorf("through a link: %v", err)
	}
	k, _ := Lookup("cluster.join")
	for step, fine := range map[string]bool{
		`{"id":"j","kind":"cluster.join","with":{"cluster":"ray","credential":{"from":"steps.token"}}}`:                                      false,
		`{"id":"j","kind":"cluster.join","with":{"cluster":"ray","credential":{"from":"steps.token"},"environment":{"from":"steps.env"}}}`:   true,
		`{"id":"j","kind":"cluster.join","with":{"cluster":"slurm","credential":{"from":"steps.token"},"environment":{"from":"steps.env"}}}`: false,
		`{"id":"l","kind":"cluster.leave","with":{"cluster":"ray","name":"lab"}}`:                                                            true,
	} {
		if err := k.Check(planned(t, step)); (err == nil) != fine {
			t.Errorf("%s: %v", step, err)
		}
	}
}

// systemd reads the units as they are meant.
func TestSystemdReadsTheUnitsOfRay(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd is not installed here")
	}
	dir := t.TempDir()
	for name, unit := range map[string][]byte{
		"hostler-ray.service":        rayService(&rayJoin, "/usr", []string{"zone=a"}, []string{"video"}),
		"hostler-ray-drain@.service": rayDrainService(&rayJoin, "/usr"),
	} {
		// The program is there, since systemd looks for it.
		unit = []byte(strings.ReplaceAll(string(unit), "/usr/bin/ray", "/usr/bin/true"))
		if err := os.WriteFile(filepath.Join(dir, name), unit, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"hostler-ray.service", "hostler-ray-drain@" + strings.Repeat("a", 56) + ".service"} {
		cmd := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", filepath.Join(dir, name))
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
		if said, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(said), "hostler-ray") {
			t.Errorf("%s: %v\n%s", name, err, said)
		}
	}
}

// leavingRay is a step that leaves, on a node that has joined. The broker gives the answers in their order,
// the last one again and again.
func leavingRay(t *testing.T, answers ...string) (s *Step, dir string, units *hosttest.Systemd) {
	t.Helper()
	s, dir = joiningRay(t, rayJoin, "/opt/ray/env")
	if _, err := do(t, s); err != nil {
		t.Fatal(err)
	}
	units = s.Host.Systemd.(*hosttest.Systemd)
	units.Asked = nil
	s = aStep(t, s.Host, "cluster.leave", Args{"cluster": "ray", "name": "lab"})
	s.Mint = func(context.Context) ([]byte, error) {
		units.Asked = append(units.Asked, "broker")
		answer := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return ofController(answer, rayJoin.Controller), nil
	}
	return s, dir, units
}

// alive is an answer about a member with an id.
func alive(t *testing.T, id string) string {
	t.Helper()
	raw, err := json.Marshal(taskcatalog.ClusterMembership{State: "member", Words: "ALIVE", ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The node itself tells the cluster to give it no work, once for each id, and ends Ray when the cluster has no
// such node.
func TestANodeLeavesRayWhenItsWorkIsOver(t *testing.T) {
	needsRoot(t)
	first, second := strings.Repeat("a", 56), strings.Repeat("b", 56)
	s, dir, units := leavingRay(t, alive(t, first), alive(t, first), `{"state":"unknown","words":"several nodes"}`, alive(t, second), isAbsent)
	var proof Proof
	synctest.Test(t, func(t *testing.T) {
		var err error
		if proof, err = do(t, s); err != nil {
			t.Fatal(err)
		}
	})
	if want := "cluster lab says absent (no such node); hostler-ray.service has ended, and no token of a cluster is there"; proof.Message != want {
		t.Errorf("the proof is %q", proof.Message)
	}
	want := []string{
		"broker", "start hostler-ray-drain@" + first + ".service", "broker", "broker", "broker", "start hostler-ray-drain@" + second + ".service",
		"broker", "stop hostler-ray.service", "disable hostler-ray.service", "reload", "broker",
	}
	if !slices.Equal(units.Asked, want) {
		t.Errorf("asked %q", units.Asked)
	}
	for _, file := range []string{rayTokenFile, rayUnitFile, rayDrainFile} {
		if _, err := os.Lstat(filepath.Join(dir, file)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", file, err)
		}
	}
	// A node that has left, or never joined, leaves again.
	if _, err := do(t, s); err != nil {
		t.Errorf("once more: %v", err)
	}
}

func TestANodeOfRayDoesNotLeave(t *testing.T) {
	needsRoot(t)
	untouched := func(name, dir string, units *hosttest.Systemd) {
		for _, file := range []string{rayTokenFile, rayUnitFile, rayDrainFile} {
			if _, err := os.Lstat(filepath.Join(dir, file)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !units.On["hostler-ray.service"] || units.HasAsked("stop hostler-ray.service") {
			t.Errorf("%s: Ray was ended: %q", name, units.Asked)
		}
	}
	over := errors.New("the time is over")
	for name, row := range map[string]struct{ answer, words string }{
		"with work":     {alive(t, strings.Repeat("a", 56)), "cluster lab says member (ALIVE), and the node has told it to give no further work: "},
		"a second node": {`{"state":"unknown","words":"several nodes with this name are ALIVE"}`, "cluster lab says unknown (several nodes with this name are ALIVE): "},
	} {
		s, dir, units := leavingRay(t, row.answer)
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 10*leavePause, over)
			defer cancel()
			if _, err := kinds["cluster.leave"].Do(ctx, s); !errors.Is(err, over) || !strings.HasPrefix(err.Error(), row.words) {
				t.Errorf("%s: %v", name, err)
			}
		})
		untouched(name, dir, units)
	}
	// The id goes into the name of a unit.
	for _, id := range []string{"", "a", strings.Repeat("A", 56), strings.Repeat("a", 55) + "/", strings.Repeat("a", 57)} {
		s, dir, units := leavingRay(t, alive(t, id))
		if _, err := do(t, s); taskcatalog.CodeOf(err, "") != taskcatalog.CodeHandlerFailed {
			t.Errorf("%q: %v", id, err)
		}
		untouched(id, dir, units)
	}
	s, dir, units := leavingRay(t, alive(t, strings.Repeat("a", 56)))
	units.OnStart = func(string) error { return errors.New("the job failed") }
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != CodeUnitState || !strings.Contains(err.Error(), "the job failed") {
		t.Errorf("an order that fails: %v", err)
	}
	untouched("an order that fails", dir, units)
}
