package nodeapi

import (
	"context"
	"crypto/x509"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/resolver"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Limits on a node's report about itself.
const (
	maxToken        = 128
	maxVersion      = 64
	maxTaskTypes    = 256
	maxCapabilities = 128
	maxCapability   = 128 // bytes of a key or a value
)

var (
	taskTypeForm      = lazyregexp.New(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*@[1-9][0-9]{0,5}$`)
	capabilityKeyForm = lazyregexp.New(`^[a-z][a-z0-9_.-]*$`)
)

// enroll makes a node a member: in exchange for a one-time token and a certificate request the node
// gets a certificate, the trust bundle and its assigned resolver profiles. A repeat with the same
// token and key, as after a lost answer, gets the same certificate and the same task.
func (a *API) enroll(c *call) (any, error) {
	if err := a.limitEnroll(c.w, c.r); err != nil {
		return nil, err
	}
	var req wire.EnrollRequest
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	csr, err := pki.ParseCSR([]byte(req.CSR))
	if err != nil {
		return nil, err
	}
	keyDigest, err := pki.PublicKeyDigest(csr.PublicKey)
	if err != nil {
		return nil, err
	}
	report, err := reportOf(req.AgentVersion, req.TaskTypes, req.Capabilities, req.Facts, req.Agent)
	if err != nil {
		return nil, err
	}
	if len(req.Token) > maxToken || len(req.MAASSystemID) > maxVersion {
		return nil, taskcatalog.Errorf(taskcatalog.CodeMalformed, "cannot enroll: not an enrolment token, or not a MAAS system id")
	}
	bundle, rawBundle := a.c.Trust.Bundle()
	enrolled, err := a.c.DB.Enroll(c.r.Context(), store.EnrollInput{
		TokenHash:       pki.HashToken(req.Token),
		PublicKeyDigest: keyDigest,
		MAASSystemID:    req.MAASSystemID,
		Report:          report,
		TrustVersion:    bundle.Version,
		Remote:          remoteHost(c.r),
		Issue: func(n broker.Node, epoch int64) (store.IssuedCert, error) {
			return a.issue(csr, pki.NodeIdentity{NodeID: n.ID, Epoch: epoch}, a.c.Now())
		},
	})
	if err != nil {
		return nil, inAudit(err)
	}
	return wire.EnrollReply{
		NodeID: enrolled.Node.ID, NodeEpoch: enrolled.Node.Epoch,
		Certificate: enrolled.Cert.PEM, TrustBundle: string(rawBundle), Now: a.c.Now().UTC(),
		ResolverConfig: a.profilesFor(c.r.Context(), enrolled.Node),
	}, nil
}

// profilesFor returns the task with the resolver profiles assigned to a new member. The enrolment
// succeeds without the task: then the profiles follow with a poll. They also follow with a poll
// after a restored database is released.
func (a *API) profilesFor(ctx context.Context, n broker.Node) *wire.CarriedTask {
	if held, err := a.held(ctx); err != nil || held {
		return nil
	}
	k, ok, err := resolver.AtEnrolment(ctx, a.c.DB, a.c.Queue, a.c.Now(), n)
	if err != nil {
		a.c.Log.Warn("cannot include the resolver profiles in the answer to a new node", zap.String("node", n.ID), zap.Error(err))
	}
	if err != nil || !ok {
		return nil
	}
	return &wire.CarriedTask{TaskID: k.ID, Envelope: string(k.Envelope)}
}

// issue makes a node certificate.
func (a *API) issue(csr *x509.CertificateRequest, id pki.NodeIdentity, at time.Time) (store.IssuedCert, error) {
	leaf, chain, err := a.c.Trust.IssueNode(csr, id, at, a.c.CertLife)
	if err != nil {
		return store.IssuedCert{}, err
	}
	return store.IssuedCert{
		Serial: pki.Serial(leaf), PEM: string(pki.MarshalCerts(chain...)), PublicKey: leaf.RawSubjectPublicKeyInfo,
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
	}, nil
}

// reportOf checks a node's report about itself. Task types and keys have a form; values are text
// and are cleaned.
func reportOf(
	version string, taskTypes []string, capabilities map[string]string, facts *taskcatalog.Facts, agent *taskcatalog.AgentBuild,
) (store.NodeReport, error) {
	refuse := func(format string, args ...any) (store.NodeReport, error) {
		return store.NodeReport{}, taskcatalog.Errorf(taskcatalog.CodeMalformed, format, args...)
	}
	if len(taskTypes) > maxTaskTypes || len(capabilities) > maxCapabilities {
		return refuse("cannot accept the report: %d task types and %d capabilities, at most %d and %d", len(taskTypes), len(capabilities),
			maxTaskTypes, maxCapabilities)
	}
	types := slices.Clone(taskTypes)
	slices.Sort(types)
	for _, t := range types {
		if len(t) > maxCapability || !taskTypeForm.MatchString(t) {
			return refuse("cannot accept the report: %s is not of the form name@version", taskcatalog.Clean(t, 80))
		}
	}
	clean := make(map[string]string, len(capabilities))
	for k, v := range capabilities {
		if len(k) > maxCapability || !capabilityKeyForm.MatchString(k) {
			return refuse("cannot accept the report: %s is not a valid capability name", taskcatalog.Clean(k, 80))
		}
		clean[k] = taskcatalog.Clean(v, maxCapability)
	}
	digest := wire.ReportDigest(taskTypes, capabilities, facts, agent)
	if facts != nil {
		facts.Bound()
	}
	if agent != nil {
		agent.Bound()
	}
	return store.NodeReport{
		AgentVersion: taskcatalog.Clean(version, maxVersion),
		TaskTypes:    slices.Compact(types), Capabilities: clean, Facts: facts, Agent: agent, Digest: digest,
	}, nil
}
