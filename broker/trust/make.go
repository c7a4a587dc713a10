package trust

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Validity of keys and authorities without rotation.
const (
	rootLife = 20 * 365 * 24 * time.Hour
	keyLife  = 10 * 365 * 24 * time.Hour
)

// MakeOptions are the options of a new key ring.
type MakeOptions struct {
	Now time.Time
	// TrustKeyURI names an existing trust key stored elsewhere. Empty: a trust key is generated
	// with the others.
	TrustKeyURI string
}

// Exists reports whether dir has a key ring.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ringFile))
	return err == nil
}

// Make creates a broker's keys in dir, which must be missing or empty: root and issuing CA, task,
// trust and statement key, and the first trust bundle. Make creates all of them or nothing. Codes:
// keys_exist, keys_unwritable.
func Make(dir string, opts MakeOptions) (err error) {
	if found, err := os.ReadDir(dir); len(found) > 0 {
		return broker.Errorf(broker.Refused, "keys_exist",
			"cannot make keys: %s has keys, which nodes trust (rotate them with hostler trust rotate)", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return broker.Errorf(broker.Invalid, "keys_unwritable", "cannot make keys: %v", err)
	}
	parent, pattern := filepath.Dir(dir), "."+filepath.Base(dir)+"-new-*"
	// Keys of an interrupted attempt were never used.
	stale, _ := filepath.Glob(filepath.Join(parent, pattern))
	for _, old := range stale {
		_ = os.RemoveAll(old)
	}
	tmp, err := os.MkdirTemp(parent, pattern) // mode 0700
	if err != nil {
		return broker.Errorf(broker.Invalid, "keys_unwritable", "cannot make keys: %v", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(tmp)
		}
	}()
	if err := fill(tmp, opts); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return broker.Errorf(broker.Refused, "keys_exist", "cannot make keys: %v", err)
	}
	return syncDir(parent)
}

// fill writes a complete key ring into an empty directory.
func fill(dir string, opts MakeOptions) error {
	r := &keyring{dir: dir, opened: map[string]crypto.Signer{}}
	authority, err := r.newAuthority(opts.Now)
	if err != nil {
		return err
	}
	r.doc.Keys = append(r.doc.Keys, authority...)
	for _, use := range []pki.KeyUse{pki.UseTask, pki.UseTrust, pki.UseStatement} {
		uri := ""
		if use == pki.UseTrust {
			uri = opts.TrustKeyURI
		}
		k, err := r.newKey(use, uri, opts.Now)
		if err != nil {
			return err
		}
		r.doc.Keys = append(r.doc.Keys, k)
	}

	first := pki.TrustBundle{Version: 1, IssuedAt: opts.Now.UTC()}
	for _, k := range r.doc.Keys {
		if k.Use == UseIssuing {
			continue
		}
		entry, err := k.bundleKey()
		if err != nil {
			return err
		}
		first.Keys = append(first.Keys, entry)
	}
	trust, err := r.signer(r.keys(pki.UseTrust)[0])
	if err != nil {
		return err
	}
	raw, err := pki.SignBundle(first, trust)
	if err != nil {
		return err
	}
	r.doc.FirstBundle = string(raw)
	return r.add()
}

// newKey generates a signing key, or opens the key at uri, and returns its entry.
func (r *keyring) newKey(use pki.KeyUse, uri string, now time.Time) (ringKey, error) {
	key, err := r.generate(pki.Ed25519, uri)
	if err != nil {
		return ringKey{}, err
	}
	id, err := pki.KeyID(key.Public())
	if err != nil {
		return ringKey{}, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return ringKey{}, err
	}
	k := ringKey{
		Use: use, ID: id, URI: uri,
		Public:    string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		NotBefore: now.Add(-pki.Backdate).UTC(), NotAfter: now.Add(keyLife).UTC(),
	}
	if uri == "" {
		k.URI, err = r.save(use, id, key)
	}
	return k, err
}

// newAuthority makes a root and an issuing CA below the root. The keys are P-256: every TLS client,
// including browsers, can verify P-256.
func (r *keyring) newAuthority(now time.Time) ([]ringKey, error) {
	rootKey, err := r.generate(pki.P256, "")
	if err != nil {
		return nil, err
	}
	issuingKey, err := r.generate(pki.P256, "")
	if err != nil {
		return nil, err
	}
	id, err := pki.KeyID(rootKey.Public())
	if err != nil {
		return nil, err
	}
	// Each authority gets a different name, so that chains of two authorities are not confused
	// while both are in use.
	rootCert, err := pki.NewRoot(rand.Reader, rootKey, "Hostler root "+id, now, rootLife)
	if err != nil {
		return nil, err
	}
	root, err := pki.NewCA([]*x509.Certificate{rootCert}, rootKey)
	if err != nil {
		return nil, err
	}
	issuing, err := pki.NewIssuing(rand.Reader, root, issuingKey.Public(), "Hostler issuing CA "+id, now, keyLife)
	if err != nil {
		return nil, err
	}
	var out []ringKey
	for _, a := range []struct {
		use   pki.KeyUse
		key   crypto.Signer
		chain []*x509.Certificate
	}{{pki.UseRoot, rootKey, root.Chain}, {UseIssuing, issuingKey, []*x509.Certificate{issuing, rootCert}}} {
		fingerprint := pki.Fingerprint(a.chain[0])
		uri, err := r.save(a.use, fingerprint[:16], a.key)
		if err != nil {
			return nil, err
		}
		out = append(out, ringKey{
			Use: a.use, ID: fingerprint, URI: uri, Chain: string(pki.MarshalCerts(a.chain...)),
			NotBefore: a.chain[0].NotBefore.UTC(), NotAfter: a.chain[0].NotAfter.UTC(),
		})
	}
	return out, nil
}

// generate generates a key, or opens the key at uri.
func (r *keyring) generate(kind, uri string) (crypto.Signer, error) {
	if uri == "" {
		return pki.GenerateKey(kind)
	}
	key, err := pki.OpenSigner(uri)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, string(taskcatalog.CodeOf(err, pki.CodeKeyUnreadable)), "cannot make keys: %v", err)
	}
	return key, nil
}

// save writes a private key into the ring's directory and returns its URI.
func (r *keyring) save(use pki.KeyUse, id string, key crypto.Signer) (string, error) {
	raw, err := pki.MarshalKey(key)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s-%s.key", use, id)
	if err := writeDurable(filepath.Join(r.dir, name), raw); err != nil {
		return "", broker.Errorf(broker.Unavailable, "keys_unwritable", "cannot write %s key: %v", use, err)
	}
	return "file:" + name, nil
}
