package records

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/taskcatalog"
)

// machine is an active node that MAAS could redeploy.
func (w *world) machine() broker.Node {
	w.Helper()
	site := broker.NewSite("0000-dc1")
	site.Name, site.APIBaseURL, site.PXEIface, site.NodePXEIface, site.RegionCode = "dc1", "https://maas.example/MAAS", "ens19", "eno1", "eu-1"
	_, err := w.db.CreateSite(w.Context(), ada, site, broker.NewProfile("1111-default", site.ID, broker.DefaultProfile))
	w.ok(err)
	sku := broker.NewSKU()
	sku.ID = "h100"
	_, err = w.db.CreateSKU(w.Context(), ada, sku)
	w.ok(err)
	_, err = w.db.CreateNode(w.Context(), ada, store.NewNode{ID: "n-2", Hostname: "g2", Site: "dc1", SKU: "h100", MAASSystemID: "abc123", TokenHash: "h2", TokenExpires: w.db.Now().Add(time.Hour)})
	w.ok(err)
	_, err = w.db.Enroll(w.Context(), store.EnrollInput{
		TokenHash: "h2", PublicKeyDigest: "k2", TrustVersion: 1, MAASSystemID: "abc123", Report: store.NodeReport{TaskTypes: taskcatalog.IDs(), Digest: "d"},
		Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			return store.IssuedCert{Serial: "s-2", PublicKey: []byte("k2"), NotBefore: w.db.Now(), NotAfter: w.db.Now().Add(24 * time.Hour)}, nil
		},
	})
	w.ok(err)
	_, err = w.db.FirstContact(w.Context(), "n-2", 1, "s-2")
	w.ok(err)
	w.ok(w.db.SaveBaseline(w.Context(), ada, "n-2", "sha256:b", []byte("{}"), "test"))
	n, err := w.db.Transition(w.Context(), ada, "n-2", store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"})
	w.ok(err)
	return n
}

// letIn puts a tenant on a node.
func (w *world) letIn(node, allocation, tenant string) {
	w.Helper()
	params, err := taskcatalog.Encode(taskcatalog.ProvisionUserParams{AllocationID: allocation, Username: "u", Tenant: tenant, SSHKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIA2gT4F2m5C1yqXZ7u0cSxkq1sBzqH4q5l0S9m3v0aA u"}})
	w.ok(err)
	_, _, err = w.nodes.Queue.Enqueue(w.Context(), ada, taskqueue.Request{NodeID: node, Type: "allocation.provision_user", Params: params})
	w.ok(err)
}

// A forced reimage ends the allocations that were live at the request, and none that came during
// the wait.
func TestAForcedReimageEndsNobodyWhoCameLater(t *testing.T) {
	each(t, func(w *world) {
		n := w.machine()
		order := Order{Request: agentlifecycle.Request{Mode: broker.ByReimage, Scenario: broker.CertificateRepair, Safety: broker.Forced, Reason: "its key leaked", RequestedBy: "ada"}}
		before, err := w.nodes.Start(w.Context(), n, order)
		w.ok(err)
		w.letIn(n.ID, "a-1", "acme")
		_, err = w.nodes.Reimage(w.Context(), "r", before.State.(agentlifecycle.Work))
		if e := broker.AsError(err); e.Code != "allocation_live" || !strings.Contains(e.Message, "a-1 of tenant acme") {
			w.Errorf("with somebody who came later: %v", err)
		}
		if _, err := w.db.Run(w.Context(), turnoverOf("r")); err == nil {
			w.Error("a turnover was begun")
		}
		after, err := w.nodes.Start(w.Context(), n, order)
		w.ok(err)
		turn, err := w.nodes.reimage(w.Context(), after.State.(agentlifecycle.Work))
		w.ok(err)
		if t := turn.State.(turnover.Turnover); !slices.Equal(t.Ends, []string{"a-1"}) || !t.ForceRelease {
			w.Errorf("it ends %q, forced %v", t.Ends, t.ForceRelease)
		}
	})
}

// Under after_drain the run waits for the tenants on the node.
func TestAReimageWaitsForWhoIsThere(t *testing.T) {
	each(t, func(w *world) {
		n := w.machine()
		w.letIn(n.ID, "a-1", "acme")
		order := agentlifecycle.Request{Mode: broker.ByReimage, Scenario: broker.CertificateRepair, Safety: broker.AfterDrain, Reason: "its key leaked", RequestedBy: "ada"}
		if _, err := w.nodes.Start(w.Context(), n, Order{Request: order}); err != nil {
			w.Errorf("with a tenant on it: %v", err)
		}
		order.Safety = broker.OnlyIdle
		if _, err := w.nodes.Start(w.Context(), n, Order{Request: order}); broker.AsError(err).Code != "allocation_live" {
			w.Errorf("where nobody may be there: %v", err)
		}
	})
}
