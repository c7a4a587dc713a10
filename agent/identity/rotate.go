package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// rotationFile holds the rotation under way, or the rotation that brought the present key. The key
// named in identity.json tells which.
const rotationFile = "rotate.json"

// CodeRotationPending refuses a renewal during a rotation.
const CodeRotationPending taskcatalog.Code = "rotation_pending"

// Errors with which ask and prove, the functions passed to Rotate, report the broker's answer.
var (
	// ErrRotationOver: the broker will give no certificate for this key.
	ErrRotationOver = errors.New("the rotation is over")
	// ErrKeyRefused: the broker does not take the new certificate.
	ErrKeyRefused = errors.New("the new certificate was refused")
)

// rotation is rotate.json.
type rotation struct {
	TaskID      string `json:"task_id"`
	NodeID      string `json:"node_id"`
	NodeEpoch   int64  `json:"node_epoch"`
	KeyFile     string `json:"key"`
	Certificate string `json:"certificate,omitempty"` // PEM, once the broker has answered
}

// loadRotation reads the rotation of m. A rotation of an earlier enrolment is ignored.
func (s *State) loadRotation(m *Member) error {
	raw, err := s.readFile(rotationFile, 1<<17)
	if errors.Is(err, fs.ErrNotExist) {
		s.rotation.Store(nil)
		return nil
	}
	if err != nil {
		return stateError("cannot read %s: %v", rotationFile, err)
	}
	r := new(rotation)
	if err := decodeState(rotationFile, raw, r, "enrol the node again with a new token"); err != nil {
		return err
	}
	if r.NodeID != m.NodeID || r.NodeEpoch != m.Epoch {
		r = nil
	}
	s.rotation.Store(r)
	return nil
}

func (s *State) keepRotation(r *rotation) error {
	raw, err := taskcatalog.Encode(r)
	if err != nil {
		return err
	}
	if err := s.writeFile(rotationFile, raw); err != nil {
		return stateError("cannot write %s: %v", rotationFile, err)
	}
	s.rotation.Store(r)
	return nil
}

// dropRotation forgets a new key that will not become the node's.
func (s *State) dropRotation() error {
	err := s.fail("remove " + rotationFile)
	if err == nil {
		err = s.dir.Remove(rotationFile)
	}
	if err == nil {
		err = s.syncDir()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return stateError("cannot remove %s: %v", rotationFile, err)
	}
	s.rotation.Store(nil)
	s.sweep()
	return nil
}

// Rotating is the task of the rotation under way; empty: none.
func (s *State) Rotating() string {
	r, m := s.rotation.Load(), s.Member()
	if r == nil || m == nil || r.KeyFile == m.keyFile {
		return ""
	}
	return r.TaskID
}

// Rotated returns the first certificate of the node's present key, if the task taskID brought this
// key.
func (s *State) Rotated(taskID string) (*x509.Certificate, bool) {
	r, m := s.rotation.Load(), s.Member()
	if r == nil || m == nil || r.TaskID != taskID || r.KeyFile != m.keyFile {
		return nil, false
	}
	certs, err := pki.ParseCerts([]byte(r.Certificate))
	if err != nil {
		return nil, false
	}
	return certs[0], true
}

// Rotate tries once to give the node another key. It may be repeated after any failure, crash or
// lost answer, and continues where the last try ended. ask sends the request with the certificate
// in force; prove makes a request with the new certificate, and returns nil once the broker has
// accepted it for this node. keyKind is pki.Ed25519 or pki.P256.
//
// The broker denies the old certificate when it receives the new one. The new key is therefore on
// disk before anyone learns of it, the new certificate before it is shown, and the old key until
// the new certificate was accepted. A node that returns with a certificate that may have been shown
// shows it first.
func (s *State) Rotate(
	ctx context.Context, taskID, keyKind string, r Report, ask func(context.Context, wire.RenewRequest) (*wire.RenewReply, error),
	prove func(context.Context, *Member) error,
) error {
	s.change.Lock()
	defer s.change.Unlock()
	if _, done := s.Rotated(taskID); done {
		return nil
	}
	m := s.Member()
	p, err := s.rotationOf(m, taskID, keyKind)
	if err != nil {
		return err
	}
	if p.Certificate != "" {
		switch err := s.succeed(ctx, m, p, prove); {
		case err == nil, !errors.Is(err, ErrKeyRefused):
			return err
		}
		// The broker does not know the new certificate, or no longer accepts it. Ask again with the
		// old key; that answer decides.
	}
	key, err := s.readKey(p.KeyFile)
	if err != nil {
		return err
	}
	csr, err := pki.NewCSR(key)
	if err != nil {
		return err
	}
	reply, err := ask(ctx, wire.RenewRequest{
		CSR: string(csr), AgentVersion: r.AgentVersion, TaskTypes: r.TaskTypes, Capabilities: r.Capabilities,
		Facts: r.Facts, Agent: r.Agent, TrustVersion: m.Trust.Version, RotationTask: taskID,
	})
	if errors.Is(err, ErrRotationOver) {
		return errors.Join(err, s.dropRotation())
	}
	if err != nil {
		return err
	}
	if _, err := certificateFor(key, reply.Certificate, m.NodeIdentity); err != nil {
		return answerError("its certificate: %v", err)
	}
	got := *p
	got.Certificate = reply.Certificate
	if err := s.keepRotation(&got); err != nil {
		return err
	}
	return s.succeed(ctx, m, &got, prove)
}

// rotationOf returns the rotation begun by this task, or begins it. Key and record are on disk when
// it returns.
func (s *State) rotationOf(m *Member, taskID, keyKind string) (*rotation, error) {
	switch under := s.Rotating(); under {
	case taskID:
		return s.rotation.Load(), nil
	case "":
	default:
		return nil, taskcatalog.Errorf(CodeRotationPending, "cannot begin to change the key: the key change of task %s has not ended",
			under)
	}
	if s.Unsaved() { // otherwise a crash would return to a state older than the broker's
		if err := s.save(m, false); err != nil {
			return nil, err
		}
	}
	_, name, err := s.newKey(keyKind)
	if err != nil {
		return nil, err
	}
	p := &rotation{TaskID: taskID, NodeID: m.NodeID, NodeEpoch: m.Epoch, KeyFile: name}
	return p, s.keepRotation(p)
}

// succeed shows the new certificate and makes it the node's once the broker has accepted it. From
// then on there is no way back, so a failed write does not prevent its use: after a restart
// rotate.json leads to the same state again.
func (s *State) succeed(ctx context.Context, m *Member, p *rotation, prove func(context.Context, *Member) error) error {
	next := *m
	var err error
	if next.Key, err = s.readKey(p.KeyFile); err != nil {
		return err
	}
	next.keyFile = p.KeyFile
	if next.Cert, err = certificateFor(next.Key, p.Certificate, m.NodeIdentity); err != nil {
		return stateError("cannot use %s: %v", rotationFile, err)
	}
	if err := prove(ctx, &next); err != nil {
		return err
	}
	if err := s.save(&next, true); err != nil {
		return err
	}
	s.dropOldKeys()
	return nil
}

// dropOldKeys removes the files of unused keys, once the file naming the present key is on disk.
func (s *State) dropOldKeys() {
	if s.Unsaved() {
		return
	}
	s.sweep()
	_ = s.syncDir()
}

// GiveUpRotation forgets a rotation that the broker has not begun.
func (s *State) GiveUpRotation(taskID string) error {
	s.change.Lock()
	defer s.change.Unlock()
	if s.Rotating() != taskID {
		return nil
	}
	return s.dropRotation()
}
