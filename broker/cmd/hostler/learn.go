package main

import (
	"context"
	"crypto/x509"
	"path/filepath"
	"slices"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/pki"
)

// contacted is the broker that a command spoke to, with its client file.
type contacted struct {
	api  *client.Client
	path string
}

// learnRoots updates the client file to the broker's roots after a command that found them changed:
// in a rotation the new root must be known before the old root goes. Only a broker that has shown a
// pinned root is trusted. If the roots cannot be learned, the command still succeeds, and the next
// command tries again.
func (a *app) learnRoots(ctx context.Context) {
	if a.contacted == nil || a.contacted.api == nil {
		return
	}
	said := a.contacted.api.RootsInForce()
	file, err := clientfile.Load(a.contacted.path)
	if err != nil || len(said) == 0 {
		return
	}
	had, err := pki.ParseCerts([]byte(file.CA))
	if err != nil || sameRoots(had, said) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	now, err := a.contacted.api.Roots(ctx)
	if err != nil {
		a.note("warning: the root certificates of %s have changed, and they could not be read: %v", file.Broker, err)
		return
	}
	roots := merged(had, rootsOf(now))
	file.CA = string(pki.MarshalCerts(roots...))
	for _, beside := range []*string{&file.TokenFile, &file.SignInFile} {
		if filepath.Dir(*beside) == filepath.Dir(a.contacted.path) {
			*beside = filepath.Base(*beside) // relative, as before, if the two files lie together
		}
	}
	if err := file.Write(a.contacted.path); err != nil {
		a.note("warning: the root certificates of %s have changed, and %s cannot be written: %v (log in again before the rotation is finished)", file.Broker, a.contacted.path, err)
		return
	}
	if len(roots) > len(had) {
		a.note("note: %s now trusts the new root certificate of %s too", a.contacted.path, file.Broker)
	}
}

func sameRoots(had []*x509.Certificate, said []string) bool {
	return len(had) == len(said) && !slices.ContainsFunc(had,
		func(c *x509.Certificate) bool { return !slices.Contains(said, pki.Fingerprint(c)) })
}

// rootsOf are the certificates of a list of roots.
func rootsOf(l *api.RootList) []*x509.Certificate {
	var roots []*x509.Certificate
	for _, r := range l.Items {
		if cert, err := x509.ParseCertificate(r.Certificate); err == nil && cert.IsCA {
			roots = append(roots, cert)
		}
	}
	return roots
}

// merged returns the roots to pin: only the roots in force, once one of them is pinned already;
// until then the pinned roots as well.
func merged(had, now []*x509.Certificate) []*x509.Certificate {
	known := func(c *x509.Certificate) bool { return slices.ContainsFunc(had, c.Equal) }
	if slices.ContainsFunc(now, known) {
		return now
	}
	return append(slices.Clone(had), now...)
}
