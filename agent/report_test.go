package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

func seen(uuid string) taskcatalog.Facts {
	return taskcatalog.Facts{Keys: map[string]string{"gpu.vendor": "nvidia"}, GPUs: []taskcatalog.GPUFacts{{Vendor: "nvidia", UUID: uuid}}}
}

func TestANodeEnrolsWithItsFactsAndThoseOfItsConfigFile(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.config.Capabilities = map[string]string{"weka": "4.3", "gpu.vendor": "of the config file"}
		l.config.Facts = func(context.Context) (taskcatalog.Facts, error) { return seen("GPU-1"), nil }
		p := l.start()
		l.nodeID(p)
		r := l.broker.Reports[0]
		if r.Capabilities["weka"] != "4.3" || r.Capabilities["gpu.vendor"] != "nvidia" {
			t.Errorf("capabilities are %v", r.Capabilities)
		}
		if r.Facts == nil || r.Facts.GPUs[0].UUID != "GPU-1" {
			t.Errorf("facts are %+v", r.Facts)
		}
	})
}

func TestAMachineThatCannotBeLookedAtIsStillANode(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.config.Facts = func(ctx context.Context) (taskcatalog.Facts, error) {
			<-ctx.Done()
			return taskcatalog.Facts{}, errors.New("sysfs hangs")
		}
		p := l.start()
		l.nodeID(p)
		if r := l.broker.Reports[0]; r.Facts != nil {
			t.Errorf("facts are %+v", r.Facts)
		}
	})
}

// A change reaches the broker with the next poll, because the digest differs.
func TestATaskThatChangesTheNodeIsFollowedByALook(t *testing.T) {
	inBubble(t, func(l *lab) {
		uuid := "GPU-1"
		l.config.Facts = func(context.Context) (taskcatalog.Facts, error) { return seen(uuid), nil }
		l.handle("node.drain@1", do(func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
			uuid = "GPU-2"
			return &taskcatalog.DrainResult{Drained: true}, taskcatalog.Report{}, nil
		}))
		p := l.start()
		l.nodeID(p)
		before := p.nodeReport.Load().digest
		l.broker.Wait(l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`), time.Minute)
		l.until("the node has looked again", func() bool { return p.nodeReport.Load().digest != before })
		if got := p.nodeReport.Load().report.Facts.GPUs[0].UUID; got != "GPU-2" {
			t.Errorf("the node says it has %s", got)
		}
	})
}

func TestNobodyAsksTheGPUsWhileATenantIsThere(t *testing.T) {
	inBubble(t, func(l *lab) {
		looks := 0
		l.config.Facts = func(context.Context) (taskcatalog.Facts, error) { looks++; return seen("GPU-1"), nil }
		p := l.start()
		l.nodeID(p)
		if err := p.ledger.Accounts().Put(host.Account{AllocationID: "a-1", Username: "u", UID: 2000, CreatedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		before := p.nodeReport.Load().digest
		p.quit()
		p = l.start()
		polls := l.broker.Count("wait")
		l.until("it polls again", func() bool { return l.broker.Count("wait") > polls })
		if looks != 1 {
			t.Errorf("the machine was looked at %d times, once before the tenant came", looks)
		}
		if p.nodeReport.Load().digest != before {
			t.Error("the node says something else of itself with a tenant on it")
		}
	})
}

func TestATaskMintsItsSecretFromTheBroker(t *testing.T) {
	inBubble(t, func(l *lab) {
		l.broker.Secrets = map[string]string{"maas_machine_token": "machine-secret"}
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			if got, err := r.Mint(ctx, "maas_machine_token"); err != nil || string(got) != "machine-secret" {
				t.Errorf("got %q, %v", got, err)
			}
			_, err := r.Mint(ctx, "busy")
			if no, ok := uplink.RefusalOf(err); !ok || no.Permanent() || no.RetryAfter != 7*time.Second || taskcatalog.CodeOf(err, "") != "registry_unreachable" {
				t.Errorf("of a refusal that passes it is told %v", err)
			}
			_, err = r.Mint(ctx, "oci_pull")
			if no, ok := uplink.RefusalOf(err); !ok || !no.Permanent() {
				t.Errorf("of a refusal that stays it is told %v", err)
			}
			return nil, taskcatalog.Report{}, err
		}))
		mints, names := 0, map[string]bool{}
		l.broker.Before = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/credentials/mint") {
				return false
			}
			names[r.Header.Get(wire.HeaderRequest)] = true
			if mints++; mints != 2 {
				return false
			}
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"title":"Service Unavailable","status":503,"detail":"gone","code":"registry_unreachable"}`)
			return true
		}
		p := l.start()
		result := l.broker.Wait(l.broker.Enqueue(l.nodeID(p), "node.drain", `{}`), time.Minute)
		if result.Code != "credential_refused" || !strings.Contains(result.Message, "no such credential") {
			t.Errorf("the refusal is lost: %s %s", result.Code, result.Message)
		}
		if len(names) != 1 || names[""] {
			t.Errorf("a run asks under %v", names)
		}
	})
}
