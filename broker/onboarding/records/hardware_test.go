package records

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// adopted makes a quarantined node whose install command ran on a machine with these facts; MAAS
// knows the machine's disks by these serials.
func (w *world) adopted(sku string, disks []string, f *taskcatalog.Facts) string {
	w.t.Helper()
	made := onboarding.NewNode{RunID: "r-1", Site: "dc1", Hostname: "c01", SKU: sku, MAASSystemID: "abc123", ByCommand: true}
	for _, serial := range disks {
		made.Disks = append(made.Disks, onboarding.Device{Serial: serial})
	}
	node := must(w.Prepare(ctx, made))(w.t)
	_, token := w.bundle(node)
	must(w.DB.Enroll(ctx, store.EnrollInput{
		TokenHash: pki.HashToken(token), PublicKeyDigest: "key", MAASSystemID: "abc123", Report: store.NodeReport{TaskTypes: taskcatalog.IDs(), Facts: f}, TrustVersion: 1,
		Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			return store.IssuedCert{Serial: "5e", PEM: "-", PublicKey: []byte("k"), NotBefore: w.clock.Now(), NotAfter: w.clock.Now().Add(time.Hour)}, nil
		},
	}))(w.t)
	if err := w.DB.SaveBaseline(ctx, broker.System, node, "sha256:b", []byte("{}"), "test"); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Quarantine(ctx, node, "other hardware"); err != nil {
		w.t.Fatal(err)
	}
	return node
}

// letIn is an operator's `node activate`.
func (w *world) letIn(node string, by broker.Owner) error {
	w.t.Helper()
	judge := must(Hardware(ctx, w.DB, must(w.Node(ctx, node))(w.t)))(w.t)
	_, err := w.DB.Transition(ctx, broker.Actor{Name: "ada", Role: broker.RoleOperator}, node, store.Change{To: broker.Active, By: by, Reason: "x", Hardware: judge})
	return err
}

// If the machine is another one, an operator's ordinary activation is refused as the run's is; only
// an override activates the node.
func TestAnOperatorLetsInNoMachineThatItsRunWouldNot(t *testing.T) {
	facts := func(disks ...string) *taskcatalog.Facts {
		f := &taskcatalog.Facts{DisksListed: true}
		for _, d := range disks {
			f.Disks = append(f.Disks, taskcatalog.DiskFacts{Name: d, Serial: d})
		}
		return f
	}
	gpu := facts("d1", "d2")
	gpu.GPUs = []taskcatalog.GPUFacts{{UUID: "g1", Vendor: "nvidia"}}
	for name, row := range map[string]struct {
		sku   string
		disks []string
		facts *taskcatalog.Facts
		code  string
		why   string // and the next action
	}{
		"another machine's disks":   {disks: []string{"d1", "d2"}, facts: facts("x1", "x2"), code: "hardware_mismatch", why: "was run on another machine (see hostler node device list"},
		"one disk was replaced":     {disks: []string{"d1", "d2"}, facts: facts("d1", "x2"), code: "hardware_mismatch", why: " SERIAL --reason R"},
		"other GPUs than its SKU's": {sku: "h100.8gpu", disks: []string{"d1", "d2"}, facts: gpu, code: "hardware_mismatch", why: "the machine has 1 GPUs"},
		"it has not said":           {disks: []string{"d1"}, code: "hardware_unknown", why: "has not reported the machine's hardware"},
		"it is the machine":         {sku: "h100.8gpu", disks: []string{"d1", "d2"}, facts: facts("d1", "d2")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			node := w.adopted(row.sku, row.disks, row.facts)
			err := w.letIn(node, broker.OwnerOperator)
			n := must(w.Node(ctx, node))(t)
			if row.code == "" {
				if err != nil || n.Status != broker.Active {
					t.Fatalf("it is %s, %v", n.Status, err)
				}
				return
			}
			if code(err) != row.code || !strings.Contains(err.Error(), row.why) || n.Status != broker.Quarantined {
				t.Fatalf("it is %s, %v; want %s, %q", n.Status, err, row.code, row.why)
			}
			if rows := must(w.DB.ListAudit(ctx, store.AuditFilter{Subject: "node/" + node, Code: row.code, Limit: 10}))(t); len(rows) != 1 {
				t.Errorf("%d refusals are audited", len(rows))
			}
			if active, lacks, err := w.Activate(ctx, node); active || (lacks == "") == (err == nil) {
				t.Errorf("and its run would: %v, %q, %v", active, lacks, err)
			}
			if err := w.letIn(node, broker.OwnerOverride); err != nil {
				t.Errorf("with the override: %v", err)
			}
		})
	}
}

func TestAMachineWhosePartWasAcceptedIsLetIn(t *testing.T) {
	w := newWorld(t)
	node := w.adopted("", []string{"d1", "d2"}, &taskcatalog.Facts{DisksListed: true, Disks: []taskcatalog.DiskFacts{{Name: "a", Serial: "d1"}, {Name: "b", Serial: "x2"}}})
	if _, err := w.DB.AcceptDevices(ctx, broker.System, node, []string{"d2", "x2"}, false, "RMA 7"); err != nil {
		t.Fatal(err)
	}
	if active, lacks, err := w.Activate(ctx, node); active || !strings.Contains(lacks, "hostler node activate "+node) || err != nil {
		t.Fatalf("its run: %v, %q, %v", active, lacks, err)
	}
	if err := w.letIn(node, broker.OwnerOperator); err != nil {
		t.Fatal(err)
	}
	// After the activation, the node's parts are watched and no longer decide.
	if _, err := w.DB.Transition(ctx, broker.System, node, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	storetest.Report(t, w.DB, node, store.NodeReport{Digest: "2", Facts: &taskcatalog.Facts{DisksListed: true}})
	if err := w.letIn(node, broker.OwnerOperator); err != nil {
		t.Errorf("a node that was in before: %v", err)
	}
}
