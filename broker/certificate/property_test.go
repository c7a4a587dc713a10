//go:build !race

// One goroutine changes bytes some ten thousand times: the race detector would only make it slow.

package certificate_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// If any byte is changed, nothing of the file is believed.
func TestEveryByteOfACertificateCounts(t *testing.T) {
	w := newWorld(t)
	silent := w.clean() // its agent never answered: nothing is proven
	silent.Run.Mode, silent.Devices, silent.Tasks = "full_decommission", silent.Devices[:1], silent.Tasks[3:]
	silent.Validation = certificate.Validation{Verdict: taskcatalog.VerdictInconclusive}
	for name, c := range map[string]*certificate.Clean{"clean": w.clean(gpu("GPU-1", "1650001")), "short": w.fallen(), "silent": silent} {
		file := w.issue(c)
		w.verify(file)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, uint64(len(file))))
			for at := range file {
				unbelieved(t, w.trust, file, at, change(random, file[at]))
			}
		})
	}
}

func TestAnyByteOfAnyCertificateCounts(t *testing.T) {
	w := newWorld(t)
	random := rand.New(rand.NewPCG(2, 3))
	for n := range 300 {
		c := w.any(random, n)
		file := w.issue(c)
		w.verify(file)
		for range 50 {
			at := random.IntN(len(file))
			unbelieved(t, w.trust, file, at, change(random, file[at]))
		}
	}
}

// A file that was cut, extended or combined from two certificates is not believed either.
func TestPartsOfCertificatesAreNone(t *testing.T) {
	w := newWorld(t)
	random := rand.New(rand.NewPCG(4, 5))
	one, two := w.issue(w.clean(gpu("GPU-1", "1650001"))), w.issue(w.fallen())
	for range 200 {
		at := 1 + random.IntN(len(one)-1)
		for what, file := range map[string][]byte{
			"cut off": one[:at], "without its beginning": one[at:],
			"a byte more":      bytes.Join([][]byte{one[:at], {one[at-1]}, one[at:]}, nil),
			"a byte less":      bytes.Join([][]byte{one[:at], one[at+min(1, len(one)-at):]}, nil),
			"of two":           append(bytes.Clone(one[:at]), two[min(at, len(two)):]...),
			"one behind other": append(bytes.Clone(one), two...),
		} {
			if bytes.Equal(file, one) || bytes.Equal(file, two) {
				continue
			}
			if r, err := certificate.Verify(file, w.trust, w.now); err == nil {
				t.Fatalf("%s at %d is believed: %s", what, at, r.Sentence())
			}
		}
	}
}

// change returns another byte: half of the time from base64's alphabet, so that its surroundings
// can still be decoded.
func change(random *rand.Rand, was byte) byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	for {
		is := byte(random.UintN(256))
		if random.IntN(2) == 0 {
			is = alphabet[random.IntN(len(alphabet))]
		}
		if is != was {
			return is
		}
	}
}

func unbelieved(t *testing.T, trust *pki.TrustBundle, file []byte, at int, is byte) {
	t.Helper()
	changed := bytes.Clone(file)
	changed[at] = is
	r, err := certificate.Verify(changed, trust, march)
	if err == nil {
		t.Fatalf("byte %d is %q instead of %q, and it is believed: %s", at, is, file[at], r.Sentence())
	}
	if taskcatalog.CodeOf(err, "") == "" {
		t.Fatalf("byte %d is %q: refused without a code: %v", at, is, err)
	}
}

// any is one of many certificates with different parts, texts and faults.
func (w *world) any(random *rand.Rand, n int) *certificate.Clean {
	var gpus []taskcatalog.GPUScrubbed
	for i := range random.IntN(9) {
		g := gpu(fmt.Sprintf("GPU-%d-%d", n, i), fmt.Sprint(1650000+i))
		if random.IntN(4) == 0 {
			g.Verdict, g.Message = taskcatalog.VerdictInconclusive, fmt.Sprintf("%q \u202e \x00 %d", "日本", random.Uint64())
		}
		gpus = append(gpus, g)
	}
	c := w.clean(gpus...)
	c.ID = fmt.Sprintf("c-%d", n)
	if random.IntN(3) == 0 {
		c.Environment = certificate.TenantOS
	}
	if random.IntN(3) == 0 {
		c.Allocation = nil
	}
	if random.IntN(3) == 0 {
		c.Tasks[0].Proof = nil
	}
	for i := range random.IntN(4) {
		c.Findings = append(c.Findings, taskcatalog.Finding{Check: "users", Subject: fmt.Sprintf("/home/%x", random.Uint64()), Count: int64(i)})
	}
	return c
}
