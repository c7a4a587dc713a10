//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/test/lab"
)

// releases is a case with releases of the agent.
type releases struct {
	*site
	made *lab.Releases
}

// releases readies a node for updates.
func (s *site) releases() *releases {
	s.t.Helper()
	made, err := s.NewReleases(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	s.must("node.trust_update", map[string]any{})
	s.root("sh", "-c", "echo 'update_watch: 5s' >> /etc/hostler-agent/config.yaml")
	return &releases{s, made}
}

// of are the same releases in another part of the case.
func (r *releases) of(s *site) *releases { return &releases{s, r.made} }

// build publishes the agent of this tree as another version.
func (r *releases) build(version string, flags ...string) {
	r.t.Helper()
	program, err := r.made.Build(r.ctx, version)
	r.publish(version, program, err, flags...)
}

// fault publishes a release whose agent does something else than serve.
func (r *releases) fault(version, does string) {
	r.t.Helper()
	program, err := r.made.StandIn(version, release.Arch, does)
	r.publish(version, program, err)
}

func (r *releases) publish(version, program string, err error, flags ...string) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, args := range r.made.Commands(version, program, flags...) {
		r.hostler(args...)
	}
}

// update has the node update itself, and returns what it says of it once nobody watches
// the version any more.
func (r *releases) update(version string, window time.Duration, meanwhile func()) (task, taskcatalog.SelfUpdateResult) {
	r.t.Helper()
	asked := r.enqueue("node.self_update", map[string]any{"phase": "update", "version": version, "confirm_window_seconds": int(window.Seconds())})
	meanwhile()
	got := r.end(asked.ID)
	var res taskcatalog.SelfUpdateResult
	if len(got.Result) > 0 {
		if err := json.Unmarshal(got.Result, &res); err != nil {
			r.t.Fatal(err)
		}
	}
	err := r.Wait(r.ctx, "nothing to be on trial", func() error {
		var seen struct {
			Trial *selfupdate.Trial `json:"trial"`
		}
		if err := json.Unmarshal([]byte(r.root("hostler-agent", "update", "show", "-o", "json")), &seen); err != nil || seen.Trial == nil {
			return err
		}
		return fmt.Errorf("%s is %s", seen.Trial.ToVersion, seen.Trial.Step)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return got, res
}

// runs checks which version the node runs, by its own word and by the kernel's.
func (r *releases) runs(version string) {
	r.t.Helper()
	pid := strings.TrimSpace(r.root("systemctl", "show", "-P", "MainPID", "hostler-agent"))
	if exe := strings.TrimSpace(r.root("readlink", "/proc/"+pid+"/exe")); !strings.HasSuffix(exe, "/versions/"+version+"/hostler-agent") {
		r.t.Errorf("%s runs, want %s", exe, version)
	}
	r.says(version)
}
