package certificate_test

import (
	"fmt"
	"testing"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

// BenchmarkVerify measures verification of the certificate of a machine with eight GPUs, with all
// proofs.
func BenchmarkVerify(b *testing.B) {
	w := newWorld(b)
	file := w.issue(w.clean(eight()...))
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := certificate.Verify(file, w.trust, w.now); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIssue measures the broker's part, with all checks before the signature.
func BenchmarkIssue(b *testing.B) {
	w := newWorld(b)
	c := w.clean(eight()...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := certificate.Issue(c, w.statement); err != nil {
			b.Fatal(err)
		}
	}
}

func eight() []taskcatalog.GPUScrubbed {
	var gpus []taskcatalog.GPUScrubbed
	for i := range 8 {
		gpus = append(gpus, gpu(fmt.Sprintf("GPU-%d", i), fmt.Sprint(1650000+i)))
	}
	return gpus
}
