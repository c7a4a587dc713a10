package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/tasks"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/resolver-profiles/profilestest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// A set arrives in a signed task and survives a restart. If the file on disk is damaged, the
// compiled-in set is in force again.
func TestProfilesOfASignedTaskAreInForceAfterARestart(t *testing.T) {
	inBubble(t, func(l *lab) {
		handler, _ := tasks.Lookup("node.resolver_config", 1)
		l.handle("node.resolver_config@1", handler)
		l.config.Facts = func(context.Context) (taskcatalog.Facts, error) {
			return taskcatalog.Facts{Keys: map[string]string{"gpu.vendor": "amd", "fabric.type": "none"}}, nil
		}
		set, problems := profiles.Parse(profilestest.Shipped()...)
		if problems != nil {
			t.Fatal(problems)
		}
		raw, err := set.Encode()
		if err != nil {
			t.Fatal(err)
		}
		p := l.start()
		if got := p.host.Profiles.InForce().Version; got != profiles.MinimalVersion {
			t.Errorf("%s in force before any task", got)
		}
		push := func(digest string) (wire.ResultRequest, taskcatalog.ResolverConfigResult) {
			q := l.broker.Enqueue(l.nodeID(p), "node.resolver_config", fmt.Sprintf(`{"version":"v1","digest":%q,"profiles":%s}`, digest, raw))
			r := l.broker.Wait(q, time.Minute)
			var res taskcatalog.ResolverConfigResult
			if err := json.Unmarshal(r.Result, &res); err != nil {
				t.Fatalf("%v: %+v", err, r)
			}
			return r, res
		}
		if r, res := push("sha256:" + fmt.Sprintf("%064d", 0)); r.Code != "digest_mismatch" || res.Version != profiles.MinimalVersion {
			t.Errorf("%s, %+v", r.Code, res)
		}
		for i, changed := range []bool{true, false} {
			r, res := push(set.Digest())
			if r.Outcome != taskcatalog.OutcomeSucceeded || res.Digest != set.Digest() || res.Version != "v1" || res.Changed != changed {
				t.Errorf("time %d: %s %s, %+v", i+1, r.Outcome, r.Message, res)
			}
			// amd-smi and amd-ctk are missing: this is reported, and the task succeeds.
			if len(res.Problems) != 4 || res.Problems[0].Code != "executable_missing" || res.Problems[0].File != "amd.yaml" {
				t.Errorf("time %d: %v", i+1, res.Problems)
			}
			p.quit()
			p = l.start()
			if got := p.host.Profiles.InForce(); got.Version != "v1" || got.Digest() != set.Digest() {
				t.Errorf("%s in force after a restart", got.Version)
			}
		}
		p.quit()
		if err := os.Truncate(filepath.Join(l.config.StateDir, "profiles", "v1.json"), 100); err != nil {
			t.Fatal(err)
		}
		if p = l.start(); p.host.Profiles.InForce().Version != profiles.MinimalVersion || p.host.Profiles.Damaged() == nil {
			t.Error("a damaged set is in force")
		}
	})
}

// The broker matches nodes by the digest of the set in force. The next poll reports the digest,
// even if the machine's facts cannot be gathered.
func TestTheDigestOfTheProfilesInForceIsReported(t *testing.T) {
	for name, look := range map[string]func(context.Context) (taskcatalog.Facts, error){
		"with facts":        func(context.Context) (taskcatalog.Facts, error) { return seen("GPU-1"), nil },
		"without facts":     nil,
		"facts that fail":   func(context.Context) (taskcatalog.Facts, error) { return taskcatalog.Facts{}, errors.New("no sysfs") },
		"only at its start": onceThenFails(),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				set, problems := profiles.Parse(profilestest.Shipped()...)
				if problems != nil {
					t.Fatal(problems)
				}
				l.handle("node.resolver_config@1", tasks.Handler{Do: func(_ context.Context, r *host.Run) (any, taskcatalog.Report, error) {
					set.Version = "v1"
					changed, err := r.Host.Profiles.Apply(set)
					return &taskcatalog.ResolverConfigResult{Version: "v1", Digest: set.Digest(), Changed: changed}, taskcatalog.Report{}, err
				}})
				l.config.Facts = look
				p := l.start()
				l.nodeID(p)
				said := func() string { return p.nodeReport.Load().report.Capabilities[taskcatalog.CapabilityResolverDigest] }
				before := p.nodeReport.Load().digest
				if said() != "" {
					t.Errorf("a node with the compiled-in set says it has %s", said())
				}
				l.broker.Wait(l.broker.Enqueue(l.nodeID(p), "node.resolver_config", `{"version":"v1"}`), time.Minute)
				l.until("the node says what it has", func() bool { return said() == set.Digest() })
				if p.nodeReport.Load().digest == before {
					t.Error("the broker does not learn of it: the digest of the report is the same")
				}
				p.quit()
				if p = l.start(); said() != set.Digest() {
					t.Errorf("after a restart it says %q", said())
				}
			})
		})
	}
}

func onceThenFails() func(context.Context) (taskcatalog.Facts, error) {
	looked := false
	return func(context.Context) (taskcatalog.Facts, error) {
		if looked {
			return taskcatalog.Facts{}, errors.New("sysfs hangs")
		}
		looked = true
		return seen("GPU-1"), nil
	}
}
