//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
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
	// unseen are the tasks from before the node's journal was read.
	unseen map[string]bool
}

// releases prepares a node for updates.
func (s *site) releases() *releases {
	s.t.Helper()
	made, err := s.NewReleases(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	r := &releases{s, made, map[string]bool{}}
	for _, t := range r.told() {
		r.unseen[t.ID] = true
	}
	s.put("/etc/systemd/journald.conf.d/seen.conf", []byte("[Journal]\nForwardToConsole=yes\nMaxLevelConsole=info\n"), 0o644)
	s.root("systemctl", "restart", "systemd-journald")
	s.must("node.trust_update", map[string]any{})
	s.root("sh", "-c", "echo 'update_watch: 5s' >> /etc/hostler-agent/config.yaml; sync")
	return r
}

// of returns the same releases for another part of the case.
func (r *releases) of(s *site) *releases { return &releases{s, r.made, r.unseen} }

// build publishes the agent of this tree as another version.
func (r *releases) build(version string, flags ...string) {
	r.t.Helper()
	program, err := r.made.Build(r.ctx, version)
	r.publish(version, program, err, flags...)
}

// fault publishes a release whose agent misbehaves in the given way.
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

// update has the node update itself, and returns the task and its result after the confirmation
// window is over.
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
