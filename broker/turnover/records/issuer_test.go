package records

import (
	"context"
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

type oneKey struct{ pki.Signer }

func (k oneKey) StatementSigner(context.Context) (pki.Signer, error) { return k.Signer, nil }

// A certificate names the issuer in the present settings of its site.
func TestACertificateNamesTheIssuerOfItsSite(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		q := newQuiet(t, db, clock, "abc", func(*broker.Policy) {})
		signer, err := pki.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
		q.ok(err)
		q.nodes.Signer = oneKey{signer}
		certify := func(id, site string) *certificate.Clean {
			at := clock.Now()
			c := &certificate.Clean{
				ID: id, Environment: certificate.TenantOS, Node: certificate.Node{ID: q.node, Epoch: 1, Site: site, IdentitySince: at},
				Run: certificate.Run{ID: "r-1", Mode: "soft_reset", StartedAt: at}, Validation: certificate.Validation{Verdict: taskcatalog.VerdictInconclusive},
				Policy:     certificate.Policy{Version: "1", Environment: certificate.TenantOS, DiskGrade: certificate.GradeNone},
				FinishedAt: at, ValidUntil: at.Add(time.Hour),
			}
			_, err := q.nodes.Certify(q.ctx, c)
			q.ok(err)
			return c
		}
		if c := certify("c-1", "dc1"); c.Issuer != nil {
			t.Errorf("a site without an issuer has %+v", c.Issuer)
		}
		want := certificate.Issuer{Organisation: "Example Compute", Contact: "trust@example.com", TrustURL: "https://example.com/trust.json"}
		_, err = db.UpdateSite(q.ctx, broker.System, "dc1", "", func(s *broker.Site) error {
			s.Issuer = broker.Issuer{Organisation: want.Organisation, Contact: want.Contact, TrustURL: want.TrustURL}
			return nil
		})
		q.ok(err)
		if c := certify("c-2", "dc1"); c.Issuer == nil || *c.Issuer != want {
			t.Errorf("it is issued by %+v", c.Issuer)
		}
		for id, site := range map[string]string{"c-3": "", "c-4": "dc9"} {
			if c := certify(id, site); c.Issuer != nil {
				t.Errorf("site %q has the issuer %+v", site, c.Issuer)
			}
		}
	})
}
