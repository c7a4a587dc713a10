package trust

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// UseIssuing is the use of the CA that signs nodes' certificates, below the root. Only this use
// never appears in a bundle: nodes trust roots.
const UseIssuing pki.KeyUse = "issuing"

const (
	ringFile = "keyring.json"
	maxRing  = 1 << 20 // bytes
)

// ringKey is one key of a broker.
type ringKey struct {
	Use       pki.KeyUse `json:"use"`
	ID        string     `json:"id"`  // KeyID; for a root and an issuing CA the certificate's fingerprint
	URI       string     `json:"uri"` // of the private part; a relative file: is in the ring's directory
	Public    string     `json:"public_key,omitempty"`
	Chain     string     `json:"chain,omitempty"` // PEM: for a root the root itself, for an issuing CA the chain up to the root
	NotBefore time.Time  `json:"not_before"`
	NotAfter  time.Time  `json:"not_after"`

	parsed []*x509.Certificate // parsed Chain: every poll uses it
}

// ringDocument is the content of keyring.json.
type ringDocument struct {
	Keys        []ringKey `json:"keys"` // oldest first within a use
	FirstBundle string    `json:"first_bundle"`
}

// keyring is the ring of one broker, with its opened keys.
type keyring struct {
	dir string

	mu     sync.Mutex
	doc    ringDocument
	opened map[string]crypto.Signer // by id
}

func openKeyring(dir string) (*keyring, error) {
	r := &keyring{dir: dir, opened: map[string]crypto.Signer{}}
	return r, r.load()
}

// load reads the ring again: the operator of another replica may have added a key.
func (r *keyring) load() error {
	path := filepath.Join(r.dir, ringFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return broker.Errorf(broker.Refused, "keys_missing",
			"cannot open the broker's keys: %s has no keys (make them with hostler-broker ca init)", r.dir)
	}
	if err != nil {
		return broker.Errorf(broker.Refused, "keys_unreadable", "cannot open the broker's keys: %v", err)
	}
	var doc ringDocument
	if len(raw) > maxRing {
		err = errors.New("the file is too large")
	} else {
		err = taskcatalog.DecodeStrict(raw, &doc)
	}
	if err != nil {
		return broker.Errorf(broker.Refused, "keys_unreadable", "cannot read %s: %v (restore it from your backup)", path, err)
	}
	parse(doc.Keys)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doc = doc
	return nil
}

// parse parses the chains of keys. certs reports an unreadable chain when the chain is used.
func parse(keys []ringKey) {
	for i, k := range keys {
		if k.Chain != "" {
			keys[i].parsed, _ = k.certs()
		}
	}
}

// add writes keys' entries into the ring. The private parts must already be in place.
func (r *keyring) add(keys ...ringKey) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.doc
	next.Keys = append(slices.Clone(r.doc.Keys), keys...)
	parse(next.Keys)
	if err := r.write(next); err != nil {
		return err
	}
	r.doc = next
	return nil
}

// retire removes a key, or a root with its issuing CA, from the ring, and then removes the private
// part.
func (r *keyring) retire(use pki.KeyUse, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := func(k ringKey) bool {
		if k.Use == UseIssuing && use == pki.UseRoot {
			chain, err := k.certs()
			return err == nil && pki.Fingerprint(chain[len(chain)-1]) == id
		}
		return k.Use == use && k.ID == id
	}
	next := r.doc
	next.Keys = slices.DeleteFunc(slices.Clone(r.doc.Keys), gone)
	if err := r.write(next); err != nil {
		return err
	}
	old := r.doc.Keys
	r.doc = next
	for _, k := range old {
		if !gone(k) {
			continue
		}
		delete(r.opened, k.ID)
		if name, ok := strings.CutPrefix(k.URI, "file:"); ok && !strings.HasPrefix(name, "/") {
			if err := os.Remove(filepath.Join(r.dir, filepath.Base(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return broker.Errorf(broker.Unavailable, "keys_unwritable",
					"cannot remove the retired %s key: %v (remove the file by hand)", k.Use, err)
			}
		}
	}
	return syncDir(r.dir)
}

func (r *keyring) write(doc ringDocument) error {
	raw, err := taskcatalog.Encode(doc)
	if err != nil {
		return err
	}
	if err := writeDurable(filepath.Join(r.dir, ringFile), raw); err != nil {
		return broker.Errorf(broker.Unavailable, "keys_unwritable", "cannot write the broker's keys: %v", err)
	}
	return nil
}

// keys returns the entries of a use, newest first.
func (r *keyring) keys(use pki.KeyUse) []ringKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []ringKey
	for i := len(r.doc.Keys) - 1; i >= 0; i-- {
		if r.doc.Keys[i].Use == use {
			out = append(out, r.doc.Keys[i])
		}
	}
	return out
}

func (r *keyring) find(use pki.KeyUse, id string) (ringKey, bool) {
	for _, k := range r.keys(use) {
		if k.ID == id {
			return k, true
		}
	}
	return ringKey{}, false
}

// signer opens the private part of a key, once.
func (r *keyring) signer(k ringKey) (pki.Signer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key, ok := r.opened[k.ID]; ok {
		return pki.Signer{ID: k.ID, Key: key}, nil
	}
	key, err := pki.OpenSigner(r.absolute(k.URI))
	if err != nil {
		return pki.Signer{}, broker.Errorf(broker.Unavailable, string(taskcatalog.CodeOf(err, pki.CodeKeyUnreadable)),
			"cannot use %s key %s: %v", k.Use, k.ID, err)
	}
	if want, err := k.public(); err != nil {
		return pki.Signer{}, err
	} else if !samePublic(want, key.Public()) {
		return pki.Signer{}, broker.Errorf(broker.Refused, "key_mismatch",
			"cannot use %s key %s: the key at its URI is another key (restore the key from your backup)", k.Use, k.ID)
	}
	r.opened[k.ID] = key
	return pki.Signer{ID: k.ID, Key: key}, nil
}

// absolute resolves the URI of a file in the ring's directory, so that a data directory may be
// moved.
func (r *keyring) absolute(uri string) string {
	if name, ok := strings.CutPrefix(uri, "file:"); ok && !strings.HasPrefix(name, "/") {
		if dir, err := filepath.Abs(r.dir); err == nil {
			return pki.FileURI(filepath.Join(dir, filepath.Base(name)))
		}
	}
	return uri
}

// ca returns an issuing CA that can sign.
func (r *keyring) ca(k ringKey) (*pki.CA, error) {
	chain, err := k.certs()
	if err != nil {
		return nil, err
	}
	s, err := r.signer(k)
	if err != nil {
		return nil, err
	}
	return pki.NewCA(chain, s.Key)
}

// certs returns the chain of a root or an issuing CA, its own certificate first.
func (k ringKey) certs() ([]*x509.Certificate, error) {
	if k.parsed != nil {
		return k.parsed, nil
	}
	return pki.ParseCerts([]byte(k.Chain))
}

// public returns the public key without opening the private key.
func (k ringKey) public() (crypto.PublicKey, error) {
	if k.Chain != "" {
		chain, err := k.certs()
		if err != nil {
			return nil, err
		}
		return chain[0].PublicKey, nil
	}
	block, _ := pem.Decode([]byte(k.Public))
	if block == nil {
		return nil, broker.Errorf(broker.Refused, "keys_unreadable", "cannot read %s key %s in the key ring (restore it from your backup)",
			k.Use, k.ID)
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}

// bundleKey returns the key's entry for a bundle.
func (k ringKey) bundleKey() (pki.BundleKey, error) {
	if k.Use == pki.UseRoot {
		chain, err := k.certs()
		if err != nil {
			return pki.BundleKey{}, err
		}
		return pki.NewBundleRoot(chain[0]), nil
	}
	pub, err := k.public()
	if err != nil {
		return pki.BundleKey{}, err
	}
	return pki.NewBundleKey(k.Use, pub, k.NotBefore, k.NotAfter)
}

func samePublic(a, b crypto.PublicKey) bool {
	x, errX := x509.MarshalPKIXPublicKey(a)
	y, errY := x509.MarshalPKIXPublicKey(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
