package nodeapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestAPackageIsServedByItsDigestToAnyone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		content := make([]byte, 3<<20+17)
		source := rand.NewChaCha8([32]byte{1})
		_, _ = source.Read(content)
		must(db.PutPackage(t.Context(), admin, store.Package{Name: "agent.deb", Version: "1.0.0"}, bytes.NewReader(content)))(t)
		sum := sha256.Sum256(content)
		path := "/internal/v1/packages/sha256/" + hex.EncodeToString(sum[:])
		n := b.machine()

		whole := n.get(path)
		if whole.status != 200 || !bytes.Equal(whole.body, content) {
			t.Fatalf("status %d, %d bytes (%v)", whole.status, len(whole.body), whole.err)
		}
		// An interrupted download resumes where it stopped.
		n.header.Set("Range", "bytes=1048570-")
		n.header.Set("If-Range", whole.header.Get("ETag"))
		rest := n.get(path)
		if rest.status != http.StatusPartialContent || !bytes.Equal(rest.body, content[1048570:]) {
			t.Errorf("range: status %d, %d bytes", rest.status, len(rest.body))
		}
		n.header = http.Header{}
		if a := n.do(context.Background(), http.MethodHead, path, nil); a.status != 200 || a.header.Get("Content-Length") != "3145745" {
			t.Errorf("HEAD: status %d, length %s", a.status, a.header.Get("Content-Length"))
		}
		for _, digest := range []string{strings.Repeat("0", 64), strings.ToUpper(hex.EncodeToString(sum[:])), "x"} {
			if a := n.get("/internal/v1/packages/sha256/" + digest); a.status != http.StatusNotFound {
				t.Errorf("%s: status %d, want 404", digest, a.status)
			}
		}
	})
}
