package identity

import (
	"crypto"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Files of the state directory.
const (
	identityFile = "identity.json"
	pendingFile  = "enroll.json" // an enrolment that has begun
	lockFile     = "lock"
	keySuffix    = ".key"
)

// Member is a node's present membership. A Member never changes; State replaces it.
type Member struct {
	pki.NodeIdentity
	Broker    string
	CASHA256  string
	TokenHash string // of the token used for the enrolment
	Key       crypto.Signer
	Cert      tls.Certificate // with the chain up to the root, and its Leaf
	Trust     *pki.TrustBundle

	keyFile string
}

// Expired reports whether the certificate has expired: it is then good only for a late renewal.
func (m *Member) Expired(now time.Time) bool { return now.After(m.Cert.Leaf.NotAfter) }

// State is the state directory: the agent's record of its identity.
type State struct {
	dir    *os.Root
	path   string
	now    func() time.Time
	lock   *os.File
	change sync.Mutex // serialises writers
	member atomic.Pointer[Member]
	// rotation is rotate.json, if it belongs to the member.
	rotation atomic.Pointer[rotation]
	// unsaved is set while the member in memory is newer than the file.
	unsaved atomic.Bool
	// fail is called before each step of a write with the step's name: tests of full disks and
	// power loss set it.
	fail func(step string) error
}

// Open opens the state directory and creates it if necessary. Open does not lock it. now is the
// node's clock.
func Open(path string, now func() time.Time) (*State, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, stateError("cannot make state directory: %v", err)
	}
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, stateError("cannot open state directory: %v", err)
	}
	if err := dir.Chmod(".", 0o700); err != nil {
		_ = dir.Close()
		return nil, stateError("cannot close state directory %s to others: %v", path, err)
	}
	return &State{dir: dir, path: path, now: now, fail: func(string) error { return nil }}, nil
}

// Close releases the directory and its lock.
func (s *State) Close() error {
	s.Unlock()
	return s.dir.Close()
}

// Unlock lets another process have the directory.
func (s *State) Unlock() {
	if s.lock != nil {
		_ = s.lock.Close()
		s.lock = nil
	}
}

// Path is the directory passed to Open.
func (s *State) Path() string { return s.path }

// Member is the membership in force, nil before the first enrolment.
func (s *State) Member() *Member { return s.member.Load() }

// Unsaved reports whether the membership in memory could not be written yet.
func (s *State) Unsaved() bool { return s.unsaved.Load() }

// Lock locks the directory for this process until Close, and loads its content. Code state_locked
// if another process holds the lock.
func (s *State) Lock() error {
	if s.lock != nil {
		return nil
	}
	f, err := s.dir.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return stateError("cannot lock %s: %v", s.path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return taskcatalog.Errorf(CodeStateLocked, "cannot use %s: another hostler-agent uses it (systemctl stop hostler-agent)", s.path)
	}
	s.lock = f
	if err := s.Load(); err != nil {
		return err
	}
	s.sweep()
	return nil
}

// record is identity.json.
type record struct {
	NodeID      string          `json:"node_id"`
	NodeEpoch   int64           `json:"node_epoch"`
	Broker      string          `json:"broker"`
	CASHA256    string          `json:"ca_sha256"`
	TokenHash   string          `json:"token_sha256"`
	KeyFile     string          `json:"key"`
	Certificate string          `json:"certificate"` // PEM, the chain up to the root
	Trust       json.RawMessage `json:"trust_bundle"`
}

// Load reads identity.json. Without the file the node is not enrolled.
func (s *State) Load() error {
	raw, err := s.readFile(identityFile, pki.MaxEnvelope+1<<17)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return stateError("cannot read %s: %v", identityFile, err)
	}
	var r record
	if err := decodeState(identityFile, raw, &r, "enrol the node again with a new token"); err != nil {
		return err
	}
	trust, err := pki.DecodeBundle(r.Trust)
	if err != nil {
		return stateError("cannot use %s: %v", identityFile, err)
	}
	key, err := s.readKey(r.KeyFile)
	if err != nil {
		return err
	}
	m := &Member{
		NodeIdentity: pki.NodeIdentity{NodeID: r.NodeID, Epoch: r.NodeEpoch},
		Broker:       r.Broker, CASHA256: r.CASHA256, TokenHash: r.TokenHash,
		Key: key, Trust: trust, keyFile: r.KeyFile,
	}
	if m.Cert, err = certificateFor(key, r.Certificate, m.NodeIdentity); err != nil {
		return stateError("cannot use %s: %v", identityFile, err)
	}
	if err := s.loadRotation(m); err != nil {
		return err
	}
	s.member.Store(m)
	return nil
}

// save puts m into force, on disk first. If the write fails, ifFull says whether m is used from
// memory until a write succeeds.
func (s *State) save(m *Member, ifFull bool) error {
	trust, err := pki.EncodeBundle(m.Trust)
	if err != nil {
		return err
	}
	raw, err := taskcatalog.Encode(record{
		NodeID: m.NodeID, NodeEpoch: m.Epoch, Broker: m.Broker, CASHA256: m.CASHA256, TokenHash: m.TokenHash,
		KeyFile: m.keyFile, Certificate: chainPEM(m.Cert), Trust: trust,
	})
	if err != nil {
		return err
	}
	err = s.writeFile(identityFile, raw)
	if err != nil && !ifFull {
		return stateError("cannot write %s: %v", identityFile, err)
	}
	s.unsaved.Store(err != nil)
	s.member.Store(m)
	return nil
}

// Flush writes a membership whose earlier write failed.
func (s *State) Flush() error {
	s.change.Lock()
	defer s.change.Unlock()
	if m := s.Member(); m != nil && s.Unsaved() {
		if err := s.save(m, false); err != nil {
			return err
		}
		s.dropOldKeys()
	}
	return nil
}

// newKey makes a key and writes it to disk before anyone learns of it.
func (s *State) newKey(kind string) (crypto.Signer, string, error) {
	key, err := pki.GenerateKey(kind)
	if err != nil {
		return nil, "", err
	}
	id, err := pki.KeyID(key.Public())
	if err != nil {
		return nil, "", err
	}
	raw, err := pki.MarshalKey(key)
	if err != nil {
		return nil, "", err
	}
	if err := s.writeFile(id+keySuffix, raw); err != nil {
		return nil, "", stateError("cannot write the node's key: %v", err)
	}
	return key, id + keySuffix, nil
}

func (s *State) readKey(name string) (crypto.Signer, error) {
	if filepath.Base(name) != name || !strings.HasSuffix(name, keySuffix) {
		return nil, stateError("cannot use key file %q: it is not a key file of this directory", taskcatalog.Clean(name, 80))
	}
	return pki.OpenSigner(pki.FileURI(filepath.Join(s.absolute(), name)))
}

func (s *State) absolute() string {
	if abs, err := filepath.Abs(s.path); err == nil {
		return abs
	}
	return s.path
}

// sweep removes the remains of a crash: half-written files, and keys that belong to no membership,
// enrolment or rotation.
func (s *State) sweep() {
	keep := map[string]bool{}
	if m := s.Member(); m != nil {
		keep[m.keyFile] = true
	}
	p, err := s.pending()
	if err != nil {
		return
	}
	if p != nil {
		keep[p.KeyFile] = true
	}
	if r := s.rotation.Load(); r != nil {
		keep[r.KeyFile] = true
	}
	d, err := s.dir.Open(".")
	if err != nil {
		return
	}
	defer func() { _ = d.Close() }()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if strings.HasSuffix(name, tempSuffix) || strings.HasSuffix(name, keySuffix) && !keep[name] {
			_ = s.dir.Remove(name)
		}
	}
}

func (s *State) readFile(name string, most int64) ([]byte, error) {
	f, err := s.dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("the file is larger than %d bytes", most)
	}
	return raw, err
}

const tempSuffix = ".new"

// writeFile replaces a file in a single rename, and returns once the change is durable.
func (s *State) writeFile(name string, raw []byte) (err error) {
	temp := name + tempSuffix
	defer func() {
		if err != nil {
			_ = s.dir.Remove(temp)
		}
	}()
	if err := s.fail("write " + name); err != nil {
		return err
	}
	f, err := s.dir.OpenFile(temp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := s.fail("rename " + name); err != nil {
		return err
	}
	if err := s.dir.Rename(temp, name); err != nil {
		return err
	}
	return s.syncDir()
}

func (s *State) syncDir() error {
	d, err := s.dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func stateError(format string, args ...any) error {
	return taskcatalog.Errorf(CodeStateInvalid, format, args...)
}
