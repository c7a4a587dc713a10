package pki_test

import (
	"testing"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

// BenchmarkSign is what enqueueing a task costs in cryptography and encoding.
func BenchmarkSign(b *testing.B) {
	for _, kind := range []string{pki.Ed25519, pki.P256} {
		b.Run(kind, func(b *testing.B) {
			a := pkitest.New(b)
			signer := must[pki.Signer](b)(pki.NewSigner(keyOf(b, kind)))
			payload := must[[]byte](b)(taskcatalog.Encode(taskAt(a.Now)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := pki.Sign(pki.PayloadTask, payload, signer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkVerify measures how a node receives a task: parse, verify, decode.
func BenchmarkVerify(b *testing.B) {
	for _, kind := range []string{pki.Ed25519, pki.P256} {
		b.Run(kind, func(b *testing.B) {
			a := pkitest.New(b)
			signer := must[pki.Signer](b)(pki.NewSigner(keyOf(b, kind)))
			a.Bundle.Keys = append(a.Bundle.Keys, a.BundleKey(b, pki.UseTask, signer))
			raw := signTask(b, taskAt(a.Now), signer)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := readTask(a.Bundle, raw, a.Now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
