package agenttest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// routes are keyed by the names used in Requests, LoseAnswer and Count.
func (b *Broker) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /internal/v1/packages/sha256/{digest}", b.packages)
	for name, route := range map[string]struct {
		pattern string
		member  bool
		handle  func(*http.Request, *pki.Peer) (any, *wire.Problem)
	}{
		"enroll":   {"POST /internal/v1/nodes/enroll", false, b.enroll},
		"renew":    {"POST /internal/v1/nodes/{id}/renew", true, b.renew},
		"wait":     {"GET /internal/v1/nodes/{id}/tasks/wait", true, b.wait},
		"progress": {"POST /internal/v1/nodes/{id}/tasks/{task}/progress", true, b.progress},
		"mint":     {"POST /internal/v1/nodes/{id}/tasks/{task}/credentials/mint", true, b.mint},
		"result":   {"POST /internal/v1/nodes/{id}/tasks/{task}/result", true, b.result},
		"gone":     {"POST /internal/v1/nodes/{id}/terminals/{session}/gone", true, b.gone},
	} {
		mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) {
			b.Lock()
			b.Requests[name]++
			answered := b.Before != nil && b.Before(w, r)
			b.Unlock()
			if answered {
				return
			}
			var peer *pki.Peer
			if route.member {
				var p *wire.Problem
				if peer, p = b.peer(r, name); p != nil {
					answer(w, nil, p)
					return
				}
			}
			value, problem := route.handle(r, peer)
			b.Lock()
			lost := b.LoseAnswer != nil && b.LoseAnswer(name)
			b.Unlock()
			if lost {
				panic(http.ErrAbortHandler)
			}
			answer(w, value, problem)
		})
	}
	return mux
}

func answer(w http.ResponseWriter, value any, p *wire.Problem) {
	status := http.StatusOK
	if p != nil {
		value, status = p, p.Status
	}
	if value == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	raw, err := taskcatalog.Encode(value)
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

func problem(status int, code taskcatalog.Code, detail string) *wire.Problem {
	return &wire.Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

func (b *Broker) connState(c net.Conn, s http.ConnState) {
	b.Lock()
	defer b.Unlock()
	switch s {
	case http.StateNew:
		b.conns[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(b.conns, c)
	}
}

// verify refuses certificates of other brokers. Expired or denied certificates reach the routes.
func (b *Broker) verify(cs tls.ConnectionState) error {
	if len(cs.PeerCertificates) == 0 {
		return nil
	}
	_, err := pki.VerifyNodePeer(cs, b.Auth.Roots(), b.Clock(), func(string) bool { return false })
	return err
}

func (b *Broker) peer(r *http.Request, route string) (*pki.Peer, *wire.Problem) {
	b.Lock()
	defer b.Unlock()
	peer, err := pki.VerifyNodePeer(*r.TLS, b.Auth.Roots(), b.Clock(), func(serial string) bool { return b.Denied[serial] })
	if err != nil {
		return nil, problem(http.StatusForbidden, taskcatalog.CodeOf(err, pki.CodeCertificateInvalid), err.Error())
	}
	n := b.nodes[peer.NodeID]
	switch {
	case r.PathValue("id") != peer.NodeID:
		b.t.Errorf("node %s asks as node %s", peer.NodeID, r.PathValue("id"))
		return nil, problem(http.StatusForbidden, taskcatalog.CodeWrongNode, "wrong node")
	case b.Clock().After(peer.Cert.NotAfter) && route != "renew":
		return nil, problem(http.StatusForbidden, pki.CodeCertificateExpired, "the certificate ran out")
	case n == nil || peer.Epoch < n.epoch:
		return nil, problem(http.StatusForbidden, "epoch_superseded", "the node has enrolled again")
	}
	b.heard(peer)
	for _, tok := range b.tokens {
		if tok.nodeID == peer.NodeID && tok.cert != "" {
			tok.spent = true
		}
	}
	return peer, nil
}

func (b *Broker) issue(csr *x509.CertificateRequest, id pki.NodeIdentity) string {
	leaf, err := b.Auth.Issuing.IssueNode(csr, id, b.Clock(), b.CertLife)
	if err != nil {
		b.t.Error(err)
		return ""
	}
	b.issued[pki.Serial(leaf)] = id.NodeID
	return string(pki.MarshalCerts(leaf, b.Auth.Issuing.Cert, b.Auth.Root()))
}

func (b *Broker) enroll(r *http.Request, _ *pki.Peer) (any, *wire.Problem) {
	var req wire.EnrollRequest
	if err := wire.Decode(r.Body, &req); err != nil {
		return nil, problem(http.StatusBadRequest, taskcatalog.CodeOf(err, "malformed"), err.Error())
	}
	csr, err := pki.ParseCSR([]byte(req.CSR))
	if err != nil {
		return nil, problem(http.StatusBadRequest, taskcatalog.CodeOf(err, "malformed"), err.Error())
	}
	key, _ := pki.PublicKeyDigest(csr.PublicKey)
	b.Lock()
	defer b.Unlock()
	tok := b.tokens[pki.HashToken(req.Token)]
	switch {
	case tok == nil:
		return nil, problem(http.StatusForbidden, "token_unknown", "no such token")
	case tok.key != "" && (tok.key != key || tok.spent):
		return nil, problem(http.StatusForbidden, "token_used", "the token was used")
	case tok.key == "":
		if b.nodes[tok.nodeID] == nil {
			b.nodes[tok.nodeID] = &node{}
		}
		b.nodes[tok.nodeID].epoch++
		tok.key = key
		tok.cert = b.issue(csr, pki.NodeIdentity{NodeID: tok.nodeID, Epoch: b.nodes[tok.nodeID].epoch})
		if b.Carries != "" {
			tok.task = b.enqueue(tok.nodeID, "node.resolver_config", b.Carries)
		}
	}
	b.Enrolled++
	b.Reports = append(b.Reports, identity.Report{
		AgentVersion: req.AgentVersion, TaskTypes: req.TaskTypes, Capabilities: req.Capabilities,
		Facts: req.Facts, Hostname: req.Hostname,
	})
	reply := wire.EnrollReply{
		NodeID: tok.nodeID, NodeEpoch: b.nodes[tok.nodeID].epoch, Certificate: tok.cert,
		TrustBundle: string(b.Auth.RawBundle), Now: b.Clock(),
	}
	if tok.task != nil {
		reply.ResolverConfig = &wire.CarriedTask{TaskID: tok.task.ID, Envelope: tok.task.Envelope}
		if b.Forge != nil {
			b.Forge(reply.ResolverConfig, tok.task)
		}
	}
	return reply, nil
}

func (b *Broker) renew(r *http.Request, peer *pki.Peer) (any, *wire.Problem) {
	var req wire.RenewRequest
	if err := wire.Decode(r.Body, &req); err != nil {
		return nil, problem(http.StatusBadRequest, "malformed", err.Error())
	}
	csr, err := pki.ParseCSR([]byte(req.CSR))
	if err != nil {
		return nil, problem(http.StatusBadRequest, "malformed", err.Error())
	}
	now, _ := pki.PublicKeyDigest(csr.PublicKey)
	old, _ := pki.PublicKeyDigest(peer.Cert.PublicKey)
	b.Lock()
	defer b.Unlock()
	if req.RotationTask != "" {
		return b.rotate(csr, peer, req.RotationTask, now)
	}
	if old != now {
		b.t.Errorf("node %s renews with another key", peer.NodeID)
	}
	if r := b.openRotation(peer.NodeID); r != nil {
		b.t.Errorf("node %s renews with the key that it had while task %s gives it another", peer.NodeID, r.task)
	}
	b.Renewals = append(b.Renewals, peer.Expired)
	return wire.RenewReply{Certificate: b.issue(csr, peer.NodeIdentity), Late: peer.Expired, Now: b.Clock()}, nil
}

// packages serves a package, or a range of it.
func (b *Broker) packages(w http.ResponseWriter, r *http.Request) {
	digest := "sha256:" + r.PathValue("digest")
	b.Lock()
	b.Requests["packages"]++
	answered := b.Before != nil && b.Before(w, r)
	content, ok := b.Packages[digest]
	b.Unlock()
	switch {
	case answered:
	case !ok:
		answer(w, nil, problem(http.StatusNotFound, "package_not_found", "no such package"))
	default:
		w.Header().Set("ETag", `"`+digest+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
}

// mint answers with the secret of the type in Secrets, while the node holds the task's lease.
func (b *Broker) mint(r *http.Request, peer *pki.Peer) (any, *wire.Problem) {
	var req wire.MintRequest
	if err := wire.Decode(r.Body, &req); err != nil {
		return nil, problem(http.StatusBadRequest, "malformed", err.Error())
	}
	b.Lock()
	defer b.Unlock()
	if q := b.find(peer.NodeID, r.PathValue("task")); q == nil || req.Attempt != q.Attempt || !b.Clock().Before(q.leaseUntil) {
		return nil, problem(http.StatusConflict, "lease_lost", "the node does not hold the lease")
	}
	b.Minted = append(b.Minted, req)
	secret, ok := b.Secrets[req.CredentialType]
	if !ok {
		return nil, problem(http.StatusForbidden, "credential_refused", "no such credential")
	}
	return wire.MintReply{CredentialType: req.CredentialType, Secret: secret, ExpiresAt: b.Clock().Add(time.Minute)}, nil
}

func (b *Broker) gone(r *http.Request, _ *pki.Peer) (any, *wire.Problem) {
	var said wire.TerminalGone
	if err := wire.Decode(r.Body, &said); err != nil {
		return nil, problem(http.StatusBadRequest, "malformed", err.Error())
	}
	b.Lock()
	defer b.Unlock()
	b.Gone[r.PathValue("session")] = said.How
	return nil, nil
}

func (b *Broker) wait(r *http.Request, peer *pki.Peer) (any, *wire.Problem) {
	var lanes []taskcatalog.Lane
	for lane := range strings.SplitSeq(r.URL.Query().Get("lanes"), ",") {
		lanes = append(lanes, taskcatalog.Lane(lane))
	}
	watcher := r.URL.Query().Get("lanes") == "" && r.Header.Get(wire.HeaderPrefer) == wire.PreferNoWait
	if id := r.Header.Values(wire.HeaderInstance); !(watcher && len(id) == 0) && (len(id) != 1 || !wire.ValidInstance(id[0])) {
		b.t.Errorf("node %s polls as %q", peer.NodeID, id)
	}
	ctx, cancel := context.WithTimeout(r.Context(), wire.MaxWait)
	defer cancel()
	for {
		b.Lock()
		if b.Denied[peer.Serial] {
			b.Unlock()
			return nil, problem(http.StatusForbidden, pki.CodeCertificateDenied, "denied while it waited")
		}
		reply, wakeup, next := b.take(peer.NodeID, lanes), b.wakeup, b.nextLease(peer.NodeID)
		b.Unlock()
		if len(reply.Tasks)+len(reply.Cancel) > 0 {
			return reply, nil
		}
		if r.Header.Get(wire.HeaderPrefer) == wire.PreferNoWait {
			return nil, nil
		}
		lease := time.NewTimer(next)
		select {
		case <-wakeup:
		case <-lease.C:
		case <-ctx.Done():
		}
		lease.Stop()
		if ctx.Err() != nil {
			return nil, nil
		}
	}
}

func (b *Broker) find(nodeID, id string) *Task {
	for _, q := range b.tasks {
		if q.NodeID == nodeID && q.ID == id {
			return q
		}
	}
	return nil
}

func (b *Broker) progress(r *http.Request, peer *pki.Peer) (any, *wire.Problem) {
	var req wire.ProgressRequest
	if err := wire.Decode(r.Body, &req); err != nil {
		return nil, problem(http.StatusBadRequest, "malformed", err.Error())
	}
	b.Lock()
	defer b.Unlock()
	q := b.find(peer.NodeID, r.PathValue("task"))
	if q == nil || req.Attempt != q.Attempt {
		return nil, problem(http.StatusConflict, "lease_lost", "the lease is another's")
	}
	q.Progress = append(q.Progress, req)
	q.leaseUntil = b.Clock().Add(wire.LeaseTime)
	reply := wire.ProgressReply{LeaseUntil: q.leaseUntil}
	if q.canceled {
		reply.Cancel = []string{q.ID}
	}
	return reply, nil
}
