package records

import (
	"context"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// PersonStatement is a person's statement about a part that no longer runs.
type PersonStatement struct {
	Device  string // identity or serial
	Method  string // destroyed or removed
	Witness string // the eyewitness, other than the recorder
	Reason  string
}

const maxWitness = 200 // bytes

// Attest signs and stores a person's statement. The node's next certificate includes the
// statement, marked as a person's. Codes: attestation_invalid, witness_invalid, and the codes of
// store.Attestable.
func (n *Nodes) Attest(ctx context.Context, actor broker.Actor, node broker.Node, w PersonStatement) (store.Attestation, error) {
	bad := func(code, format string, args ...any) (store.Attestation, error) {
		return store.Attestation{}, broker.Errorf(broker.Invalid, code, "cannot attest a device of node "+node.ID+": "+format, args...)
	}
	method := certificate.Method(w.Method)
	switch {
	case method != certificate.MethodDestroyed && method != certificate.MethodRemoved:
		return bad("attestation_invalid", "a person cannot attest %q (only destroyed or removed)", taskcatalog.Clean(w.Method, 64))
	case strings.TrimSpace(w.Witness) == "":
		return bad("witness_invalid", "the attestation needs a witness who saw it (--witness W)")
	case w.Witness != strings.TrimSpace(taskcatalog.Clean(w.Witness, maxWitness)):
		return bad("witness_invalid", "the witness is a name of at most %d bytes, without control characters", maxWitness)
	case strings.EqualFold(w.Witness, actor.Name):
		return bad("witness_invalid", "the witness must not be the person who records the attestation")
	}
	d, id, err := n.DB.Attestable(ctx, node, w.Device)
	if err != nil {
		return store.Attestation{}, err
	}
	part := certificate.AttestedPart{Kind: string(d.Kind), Serial: d.ID, Model: d.Model}
	if d.Kind == broker.DeviceGPU {
		part.Serial, part.UUID = d.Serial, d.ID
	}
	a := certificate.Attestation{
		ID: id, Node: certificate.AttestedNode{ID: node.ID, Hostname: node.Hostname, Site: node.Site}, Device: part,
		Method: method, Witness: w.Witness, By: actor.Name, Reason: w.Reason, IssuedAt: n.Now().UTC(),
	}
	signer, err := n.Signer.StatementSigner(ctx)
	if err != nil {
		return store.Attestation{}, err
	}
	file, err := certificate.Attest(&a, signer)
	if err != nil {
		return store.Attestation{}, broker.Errorf(broker.Invalid, "attestation_invalid", "%v", err)
	}
	statement, err := taskcatalog.Encode(a)
	if err != nil {
		return store.Attestation{}, err
	}
	kept := store.Attestation{
		ID: id, NodeID: node.ID, Site: node.Site, Kind: d.Kind, DeviceID: d.ID, Statement: statement,
		Digest: pki.Digest(file), IssuedAt: a.IssuedAt, File: file,
	}
	return kept, n.DB.KeepAttestation(ctx, actor, kept, string(method)+", says "+a.Witness+" ("+id+")", w.Reason)
}

// attested are the statements for a node's next certificate.
func (n *Nodes) attested(ctx context.Context, nodeID string) (out []certificate.Attested, err error) {
	all, err := n.DB.Attestations(ctx, nodeID)
	for _, a := range all {
		said := certificate.Attested{Digest: a.Digest}
		if err := taskcatalog.DecodeStrict(a.Statement, &said.Statement); err != nil {
			return nil, err
		}
		out = append(out, said)
	}
	return out, err
}
