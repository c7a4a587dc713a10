//go:build !race

package records

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

// listener is a test that only records its errors.
type listener struct {
	testing.TB
	heard  []string
	failed bool
}

func (l *listener) Helper() {}

func (l *listener) Failed() bool { return l.failed }

func (l *listener) Logf(string, ...any) {}

func (l *listener) Errorf(format string, args ...any) {
	l.failed = true
	l.heard = append(l.heard, fmt.Sprintf(format, args...))
}

// every has the database do something again and again.
func every(d time.Duration, statements string) func(*simulation) {
	return func(s *simulation) {
		for i := range time.Duration(20) {
			s.later(i*d, func() { s.sql(statements) })
		}
	}
}

// when has the database do something whenever an allocation has reached one of the statuses.
func when(statuses, statement string) func(*simulation) {
	return after(`UPDATE OF status ON tenant_allocations WHEN NEW.status IN (`+statuses+`)`, statement)
}

// after has the database do something after an event.
func after(event, statement string) func(*simulation) {
	return func(s *simulation) { s.sql(`CREATE TRIGGER broken AFTER ` + event + ` BEGIN ` + statement + `; END`) }
}

func (s *simulation) sql(statements string) {
	_, err := s.raw.Exec(statements)
	s.must(err)
}

// Each rule can be broken, and the simulation detects the breach.
func TestSimulationTellsWhatIsWrong(t *testing.T) {
	for tells, with := range map[string]func(*simulation){
		"hold node": every(2*time.Minute, `DROP INDEX IF EXISTS allocation_claims_live;
			UPDATE OR IGNORE allocation_claims SET node_id = (SELECT MIN(id) FROM nodes)`),
		"which has no certificate since allocation": every(6*time.Minute, `UPDATE allocations SET certified_by = 'c' WHERE ended_at > 0;
			UPDATE allocation_claims SET ended_at = 1; UPDATE nodes SET status = 'active', turnover_owed = 0`),
		"has its account": func(s *simulation) {
			every(4*time.Minute, `UPDATE allocations SET ended_at = 1, certified_by = 'c'; UPDATE allocation_claims SET ended_at = 1`)(s)
			for i := range time.Duration(20) { // otherwise the traces tell it first
				s.later(i*4*time.Minute, func() {
					for _, m := range s.machines {
						m.traces = nil
					}
				})
			}
		},
		"has none of these certificates": when("'released'", `UPDATE tenant_allocations SET certificate_ids = '[]' WHERE id = NEW.id`),
		"is released, and node":          when("'releasing'", `UPDATE tenant_allocations SET status = 'released' WHERE id = NEW.id`),
		"before its tenant left": when("'released'", `UPDATE tenant_allocations SET certificate_ids = (SELECT json_group_array(c.id) FROM clean_certificates c
			WHERE c.meets_policy AND NOT EXISTS (SELECT 1 FROM clean_certificates e WHERE e.node_id = c.node_id AND e.issued_at < c.issued_at AND e.meets_policy))
			WHERE id = NEW.id`),
		"is released by certificate": when("'released'", `UPDATE tenant_allocations SET certificate_ids = (SELECT json_group_array(id) FROM clean_certificates
			WHERE NOT meets_policy) WHERE id = NEW.id`),
		"which asks for more": func(s *simulation) {
			s.later(0, func() { s.policy(true) })
			s.claims = func(c *certificate.Clean) { c.Environment, c.Downgrades = certificate.FreshOS, nil }
		},
		"and the node is not clean": func(s *simulation) {
			s.claims = func(c *certificate.Clean) { s.machine(c.Node.ID).dirty = true }
		},
		"when all troubles are over": func(s *simulation) {
			s.claims = func(c *certificate.Clean) { c.Validation.Verdict = taskcatalog.VerdictNotClean }
		},
		"has no account on node": func(s *simulation) {
			for i := range time.Duration(20) {
				s.later(i*5*time.Minute, func() { clear(s.machines[0].accounts) })
			}
		},
		"and asked for": func(s *simulation) { // whatever a node is reimaged with is lost
			s.imagesBy, s.images = rand.New(rand.NewPCG(1, 1)), true
			for i := range time.Duration(40) {
				s.later(i*2*time.Minute, func() {
					for _, m := range s.machines {
						m.image = ""
					}
				})
			}
		},
		"the site has 0 places": func(s *simulation) { s.limit = 0 },
		"is told of":            after("UPDATE OF project_id ON outbox WHEN NEW.project_id <> ''", `UPDATE outbox SET project_id = 'p-0' WHERE project_id <> ''`),
		"was told that":         after("UPDATE OF project_id ON outbox", `DELETE FROM outbox WHERE type LIKE 'provisioning.%'`),
		"the sums of the usage": after("INSERT ON usage_spans", `UPDATE usage_spans SET sku = allocation_id`),
		"is lost":               after("INSERT ON usage_spans", `DELETE FROM usage_spans`),
		"is billed for":         after("INSERT ON usage_ends", `UPDATE usage_ends SET to_at = to_at + 1000000`),
		"is counted twice": after("INSERT ON usage_spans",
			`INSERT OR IGNORE INTO usage_spans VALUES ('a-x', NEW.project_id, NEW.sku, NEW.site, NEW.nodes, NEW.gpus, NEW.from_at)`),
		"sees allocation": when("'active'", `UPDATE tenant_allocations SET project_id = CASE project_id WHEN 'p-0' THEN 'p-1' ELSE 'p-0' END`),
		"the project had": func(s *simulation) {
			s.sql(`UPDATE quotas SET nodes = 100`)
			s.projects = s.projects[:1]
			for range 6 {
				s.later(s.until(time.Hour), s.asks)
			}
		},
		"of its reserved nodes": func(s *simulation) {
			s.reservations()
			after("INSERT ON reservations", `UPDATE reservations SET to_at = from_at WHERE id = NEW.id`)(s)
		},
		"allocations in a row": func(s *simulation) {
			for _, m := range s.machines {
				m.refuses = true
			}
			for i := range time.Duration(6) {
				s.later(i*10*time.Minute, func() { s.sql(`DELETE FROM provision_failures`) })
				s.later(i*10*time.Minute+time.Second, s.asks)
			}
		},
		"is below the policy in force": func(s *simulation) {
			s.blind = true
			for i := range time.Duration(6) {
				s.later(i*30*time.Minute, func() { s.policy(i%2 == 0) })
				s.later(i*30*time.Minute+time.Second, s.asks)
			}
		},
		"is older than the policy in force allows": func(s *simulation) {
			s.later(2*time.Hour, s.shortens)
			s.later(2*time.Hour, func() {
				s.sql(`UPDATE maas_site_profiles SET policy = json_set(policy, '$.certificate_valid_seconds', 86400)`)
			})
			for i := range time.Duration(6) {
				s.later(2*time.Hour+i*time.Minute, s.asks)
			}
		},
		"begins operation": func(s *simulation) {
			for _, m := range s.machines {
				for i := range 10 {
					m.ran[fmt.Sprintf("op-a-%02d-begin", i)] = "t-another"
				}
			}
		},
		"is active, and its operation": when("'active'", `UPDATE operations SET status = 'failed' WHERE allocation_id = NEW.id`),
		"says not why":                 when("'failed', 'release_failed'", `UPDATE tenant_allocations SET code = '' WHERE id = NEW.id`),
		"was released":                 every(5*time.Minute, `UPDATE tenant_allocations SET status = 'release_failed' WHERE status = 'released'`),
	} {
		t.Run(tells, func(t *testing.T) {
			t.Parallel()
			const seeds = 60
			for seed := range uint64(seeds) {
				l := &listener{TB: t}
				playSeed(l, seed, with)
				for _, said := range l.heard {
					if strings.Contains(said, tells) {
						return
					}
				}
			}
			t.Errorf("in %d seeds nobody tells it", seeds)
		})
	}
}
