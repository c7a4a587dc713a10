package backup

import (
	"context"
	"crypto/x509"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/trust"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// check verifies the unpacked files as far as possible without changing them.
func check(ctx context.Context, stage string, m *Manifest, o RestoreOptions) error {
	keys, roots, err := trust.Inventory(filepath.Join(stage, keysDir))
	if err != nil {
		return err
	}
	m.Keys, m.Roots = keys, roots // as found, whatever the manifest says
	if want := fingerprint(o.RootSHA256); want != "" && !slices.Contains(roots, want) {
		return broker.Errorf(broker.Refused, "backup_other_ca", "cannot restore: the backup belongs to a broker with root %s instead of %s",
			strings.Join(roots, ", "), taskcatalog.Clean(want, 80))
	}
	if _, err := store.CheckFile(ctx, filepath.Join(stage, databaseName)); err != nil {
		return damaged("%v", err)
	}
	if !m.Secrets {
		return nil
	}
	files, err := secrets.Open(filepath.Join(stage, secretsDir))
	if err != nil {
		return err
	}
	return files.Close()
}

// fingerprint converts a fingerprint as people write it to the form of programs.
func fingerprint(s string) string { return strings.ToLower(strings.ReplaceAll(s, ":", "")) }

// hold migrates the database's schema, checks the keys against the database, and holds the
// database.
func hold(ctx context.Context, stage string, m Manifest, source string, o RestoreOptions) (v store.Voided, err error) {
	db, err := store.Open(ctx, store.Options{URL: "sqlite:" + filepath.Join(stage, databaseName), Now: func() time.Time { return o.Now }})
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if version, _, err := db.LatestBundle(ctx); err != nil || version == 0 {
		return v, errors.Join(err, damaged("its database belongs to a broker that was never started"))
	}
	authority, err := trust.Open(ctx, trust.Options{Dir: filepath.Join(stage, keysDir), DB: db, Now: func() time.Time { return o.Now }})
	if err != nil {
		return v, err
	}
	roots := m.Roots
	if o.RootSHA256 != "" {
		roots = []string{fingerprint(o.RootSHA256)}
	}
	if err := checkCAKeys(authority, roots, o.Now); err != nil {
		return v, err
	}
	return db.MarkRestored(ctx, o.Actor, m.TakenAt, source)
}

// checkCAKeys proves that the keys are a CA's by issuing a certificate with them: a name in a file
// proves nothing.
func checkCAKeys(authority *trust.Authority, roots []string, now time.Time) error {
	key, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		return err
	}
	raw, err := pki.NewCSR(key)
	if err != nil {
		return err
	}
	csr, err := pki.ParseCSR(raw)
	if err != nil {
		return err
	}
	leaf, chain, err := authority.IssueNode(csr, pki.NodeIdentity{NodeID: "n-aaaaaaaaaaaaaaaa", Epoch: 1}, now, time.Hour)
	if err != nil {
		return err
	}
	pool, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range chain[1:] {
		if slices.Contains(roots, pki.Fingerprint(c)) {
			pool.AddCert(c)
		} else {
			between.AddCert(c)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return broker.Errorf(broker.Refused, "key_mismatch", "cannot restore: the keys in the backup do not match its root: %v", err)
	}
	return nil
}
