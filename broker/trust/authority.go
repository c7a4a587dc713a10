package trust

import (
	"context"
	"crypto"
	"crypto/x509"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
)

// rereadEvery is the interval of reading the newest bundle without a hint.
const rereadEvery = 5 * time.Second

// Options are the dependencies of an Authority.
type Options struct {
	Dir       string // of the key ring
	DB        *store.DB
	Now       func() time.Time
	Advertise []string    // host names and addresses of the server certificate, in addition to loopback
	Changed   func()      // called after another bundle came into force, possibly twice; may be nil
	Log       *zap.Logger // nil: none
}

// Authority holds the keys of a broker and the trust bundle in force.
type Authority struct {
	o    Options
	ring *keyring

	current atomic.Pointer[inForce]

	mu      sync.Mutex
	earlier map[int64]*pki.TrustBundle // by version; nodes may still have these bundles
	server  serverCertificate

	replica store.Replica
	gap     sync.Mutex
	lacked  []string // missing keys of the bundle in force, as reported to other replicas
}

// inForce is the bundle in force.
type inForce struct {
	raw    []byte
	bundle *pki.TrustBundle
	roots  *x509.CertPool
}

// Open opens the keys of a broker and checks that they match the broker's database. The first Open
// stores the first bundle. Codes: keys_missing, keys_unreadable, key_unreadable, key_mismatch.
func Open(ctx context.Context, o Options) (*Authority, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	ring, err := openKeyring(o.Dir)
	if err != nil {
		return nil, err
	}
	a := &Authority{o: o, ring: ring, earlier: map[int64]*pki.TrustBundle{}, replica: thisReplica()}
	version, _, err := o.DB.LatestBundle(ctx)
	if err != nil {
		return nil, err
	}
	if version == 0 {
		err := o.DB.SaveBundle(ctx, broker.Actor{Name: "system"}, 1, []byte(ring.doc.FirstBundle), "first start")
		// Another replica may have stored its bundle first; the check below compares the keys.
		if err != nil && broker.AsError(err).Code != "trust_version_not_newer" {
			return nil, err
		}
	}
	if err := a.Refresh(ctx); err != nil {
		return nil, err
	}
	if missing := a.missing(); len(missing) > 0 {
		return nil, broker.Errorf(broker.Refused, "key_mismatch",
			"cannot start with the keys in %s: the database's trust bundle names %s, which is not among them (give every replica the same keys)", o.Dir, strings.Join(missing, ", "))
	}
	if err := a.sweep(); err != nil {
		return nil, err
	}
	return a, a.openSigners()
}

// openSigners opens every key for daily work: all except the root's key, which may be offline, and
// the trust key, which may be stored elsewhere.
func (a *Authority) openSigners() error {
	for _, use := range []pki.KeyUse{UseIssuing, pki.UseTask, pki.UseStatement} {
		for _, k := range a.ring.keys(use) {
			if _, err := a.ring.signer(k); err != nil {
				return err
			}
		}
	}
	_, err := a.presented()
	return err
}

// Run follows the bundle in the store until ctx ends, because another replica may rotate keys.
func (a *Authority) Run(ctx context.Context) error {
	hints := a.o.DB.Hints(ctx)
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case h, open := <-hints:
			if !open {
				hints = nil // the database was closed
			}
			if !h.Is(store.HintTrust) {
				continue
			}
		case <-tick.C:
		}
		if err := a.Refresh(ctx); err != nil && ctx.Err() == nil {
			a.o.Log.Warn("cannot read the trust bundle; the broker keeps the bundle in memory", zap.Error(err))
		}
	}
}

// Refresh reads the newest bundle. A bundle without the signature of a trust key of this ring is
// never accepted: write access to the database gives no control over trust.
func (a *Authority) Refresh(ctx context.Context) error {
	version, raw, err := a.o.DB.LatestBundle(ctx)
	if err != nil {
		return err
	}
	now := a.current.Load()
	if now != nil && version <= now.bundle.Version {
		return a.complete(ctx)
	}
	b, err := a.verified(raw)
	if err != nil && now != nil {
		// A rotation of the trust key changes the ring before the bundle.
		if err := a.ring.load(); err != nil {
			return err
		}
		b, err = a.verified(raw)
	}
	if err != nil {
		return broker.Errorf(broker.Refused, "key_mismatch",
			"cannot use trust bundle version %d of the database: no trust key in %s signed it (give every replica the same keys)", version,
			a.o.Dir)
	}
	next := &inForce{raw: raw, bundle: b, roots: x509.NewCertPool()}
	for _, k := range live(b, pki.UseRoot, a.o.Now()) {
		cert, err := x509.ParseCertificate(k.Certificate)
		if err != nil {
			return err
		}
		next.roots.AddCert(cert)
	}
	a.current.Store(next)
	if now != nil && a.o.Changed != nil {
		defer a.o.Changed()
	}
	if now == nil {
		return nil // Open judges the missing keys
	}
	return a.complete(ctx)
}

// verified returns the bundle in an envelope signed by a trust key of the ring.
func (a *Authority) verified(raw []byte) (*pki.TrustBundle, error) {
	env, err := pki.ParseEnvelope(raw)
	if err != nil {
		return nil, err
	}
	payload, _, err := env.Verify(pki.PayloadTrustBundle, func(id string) (crypto.PublicKey, bool) {
		k, ok := a.ring.find(pki.UseTrust, id)
		if !ok {
			return nil, false
		}
		pub, err := k.public()
		return pub, err == nil
	})
	if err != nil {
		return nil, err
	}
	return pki.DecodeBundle(payload)
}

// Version returns the version of the bundle in force.
func (a *Authority) Version() int64 { return a.current.Load().bundle.Version }

// Bundle returns the bundle in force and its envelope. Callers must not change either.
func (a *Authority) Bundle() (*pki.TrustBundle, []byte) {
	c := a.current.Load()
	return c.bundle, c.raw
}

// Roots returns the roots under which node certificates are accepted. Each change gives a new pool.
func (a *Authority) Roots() *x509.CertPool { return a.current.Load().roots }

// bundleOf returns the bundle version that a node has confirmed.
func (a *Authority) bundleOf(ctx context.Context, version int64) (*pki.TrustBundle, error) {
	if c := a.current.Load().bundle; version == c.Version {
		return c, nil
	}
	a.mu.Lock()
	b, ok := a.earlier[version]
	a.mu.Unlock()
	if ok {
		return b, nil
	}
	raw, err := a.o.DB.Bundle(ctx, version)
	if err != nil {
		return nil, err
	}
	// The bundle's own signature suffices: only keys that are in this ring and in the bundle in
	// force are ever used.
	if b, err = pki.FirstBundle(raw, a.o.Now()); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.earlier[version] = b
	return b, nil
}

// live returns the keys of a use that have not expired, oldest first. live allows no clock skew: a
// statement key is retired to the second.
func live(b *pki.TrustBundle, use pki.KeyUse, now time.Time) []pki.BundleKey {
	return slices.DeleteFunc(slices.Clone(b.Keys), func(k pki.BundleKey) bool {
		return k.Use != use || !now.Before(k.NotAfter)
	})
}
