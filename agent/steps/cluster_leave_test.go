package steps

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	stillDraining = `{"state":"draining","words":"MIXED+DRAIN"}`
	isAbsent      = `{"state":"absent","words":"no such node"}`
)

// leaving is a step that leaves, on a node that has joined. The broker gives the answers in their order,
// the last one again and again.
func leaving(t *testing.T, answers ...string) (s *Step, dir string, units *hosttest.Systemd) {
	t.Helper()
	s, dir = joining(t, aJoin)
	if _, err := do(t, s); err != nil {
		t.Fatal(err)
	}
	units = s.Host.Systemd.(*hosttest.Systemd)
	units.Asked = nil
	s = aStep(t, s.Host, "cluster.leave", Args{"cluster": "slurm", "name": "lab"})
	s.Mint = func(context.Context) ([]byte, error) {
		units.Asked = append(units.Asked, "broker")
		answer := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return ofController(answer, aJoin.Controller), nil
	}
	return s, dir, units
}

// ofController is an answer about a cluster with a controller, unless it names one itself.
func ofController(answer, controller string) []byte {
	if strings.Contains(answer, `"controller"`) {
		return []byte(answer)
	}
	return []byte(strings.Replace(answer, `"words"`, `"controller":"`+controller+`","node":"gpu-7","words"`, 1))
}

var joinedFiles = []string{"etc/munge/munge.key", "etc/systemd/system/slurmd.service.d/50-hostler.conf"}

// untouched fails unless the node is as its join left it.
func untouched(t *testing.T, name, dir string, units *hosttest.Systemd) {
	t.Helper()
	for _, file := range joinedFiles {
		if _, err := os.Lstat(filepath.Join(dir, file)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !units.On["slurmd.service"] || !units.Enabled["slurmd.service"] || units.HasAsked("stop slurmd.service") {
		t.Errorf("%s: slurmd was ended: %q", name, units.Asked)
	}
}

// slurmd ends and the key goes only when the cluster has let the node go, and the cluster has the last
// word.
func TestANodeLeavesWhenTheClusterHasLetItGo(t *testing.T) {
	needsRoot(t)
	s, dir, units := leaving(t, stillDraining, `{"state":"drained","words":"IDLE+DRAIN"}`, isAbsent)
	hosttest.Put(t, dir, "etc/slurm/slurm.key", "of an earlier join")
	var proof Proof
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var err error
		if proof, err = do(t, s); err != nil || time.Since(begun) != 2*leavePause {
			t.Fatalf("after %s: %v", time.Since(begun), err)
		}
	})
	if want := "cluster lab says absent (no such node); slurmd.service has ended, and no key of a cluster is there"; proof.Message != want {
		t.Errorf("the proof is %q", proof.Message)
	}
	want := []string{
		"broker", "broker", "broker", "stop slurmd.service", "disable slurmd.service", "stop munge.service", "disable munge.service", "reload", "broker",
	}
	if !slices.Equal(units.Asked, want) {
		t.Errorf("asked %q", units.Asked)
	}
	for _, file := range append([]string{"etc/slurm/slurm.key"}, joinedFiles...) {
		if _, err := os.Lstat(filepath.Join(dir, file)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", file, err)
		}
	}
	// A node that has left, or never joined, leaves again.
	if _, err := do(t, s); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// Work that does not end keeps the node a member, and the step says what the cluster says.
func TestANodeWithWorkDoesNotLeave(t *testing.T) {
	needsRoot(t)
	for answer, words := range map[string]string{
		stillDraining: "cluster lab says draining (MIXED+DRAIN)",
		`{"state":"unknown","words":"the answer is about another node"}`: "cluster lab says unknown (the answer is about another node)",
		`{"state":"Absent","words":"x"}`:                                 "cluster lab says Absent (x)",
	} {
		s, dir, units := leaving(t, answer)
		over := errors.New("the time is over")
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, over)
			defer cancel()
			if _, err := kinds["cluster.leave"].Do(ctx, s); !errors.Is(err, over) || !strings.HasPrefix(err.Error(), words) {
				t.Errorf("%s: %v", answer, err)
			}
		})
		untouched(t, answer, dir, units)
	}
}

// A checkpoint that cannot be read says nothing of the cluster: it is asked as before.
func TestALeaveAsksTheClusterWhateverItsCheckpointHas(t *testing.T) {
	needsRoot(t)
	for _, state := range []string{"", "{", `[]`, `{"names":"x"}`, `{"names":["1","2","3","4","5","6","7","8","9"]}`} {
		s, dir, units := leaving(t, `{"state":"draining","words":"x","cut":["a"]}`)
		s.Checkpoint = &notes{state: []byte(state)}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := kinds["cluster.leave"].Do(ctx, s); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%q: %v", state, err)
			}
		})
		untouched(t, state, dir, units)
	}
}

func TestALeaveFails(t *testing.T) {
	needsRoot(t)
	s, dir, units := leaving(t, `{"words":"no such node"}`)
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != taskcatalog.CodeHandlerFailed {
		t.Errorf("without a state: %v", err)
	}
	untouched(t, "without a state", dir, units)

	refused := taskcatalog.Errorf("cluster_name_taken", "no")
	s.Mint = func(context.Context) ([]byte, error) { return nil, refused }
	if _, err := do(t, s); err != refused {
		t.Errorf("a refusal: %v", err)
	}
	untouched(t, "a refusal", dir, units)

	s, _, _ = leaving(t, isAbsent, `{"state":"draining","words":"IDLE+DRAIN"}`)
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != CodeStillMember || !strings.Contains(err.Error(), "IDLE+DRAIN") {
		t.Errorf("a node that comes back: %v", err)
	}

	s, _, units = leaving(t, isAbsent)
	units.Obeys = false
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != CodeUnitState {
		t.Errorf("slurmd that goes on: %v", err)
	}

	s, _, units = leaving(t, isAbsent)
	units.UnitFiles = map[string][]string{"munge.service": {""}}
	if _, err := do(t, s); err != nil || units.HasAsked("disable munge.service") {
		t.Errorf("without munge: %v, %q", err, units.Asked)
	}

	s, dir, _ = leaving(t, isAbsent)
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "etc/slurm")), os.Symlink(t.TempDir(), filepath.Join(dir, "etc/slurm"))); err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != taskcatalog.CodePathRefused {
		t.Errorf("through a link: %v", err)
	}
	k, _ := Lookup("cluster.leave")
	if err := k.Check(planned(t, `{"id":"leave","kind":"cluster.leave","with":{"cluster":"lsf","name":"lab"}}`)); err == nil {
		t.Error("a cluster of LSF is left")
	}
}
