package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
)

// A user of client.yaml must know the new root before the old root goes, and must not trust the old
// root forever.
func TestARotationOfTheRootIsInTheClientFileWhenItIsAnswered(t *testing.T) {
	b := servertest.Start(t)
	path := filepath.Join(b.Dir, "client.yaml")
	pinned := func() []string {
		t.Helper()
		file, err := clientfile.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		certs, err := pki.ParseCerts([]byte(file.CA))
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
		}
		var ids []string
		for _, c := range certs {
			ids = append(ids, pki.Fingerprint(c))
		}
		return ids
	}
	before := pinned()
	r := servertest.Must[api.Trust](t, b, http.MethodPost, "/trust/rotate", api.TrustRotate{Use: "root", Reason: "yearly"}).Rotation
	if got := pinned(); len(got) != 2 || got[0] != before[0] || got[1] != r.NewKeyID {
		t.Errorf("in the rotation the file has %v, want %s and %s", got, before[0], r.NewKeyID)
	}
	servertest.Must[api.Trust](t, b, http.MethodPost, "/trust/finish", api.TrustFinish{Reason: "yearly"})
	if got := pinned(); len(got) != 1 || got[0] != r.NewKeyID {
		t.Errorf("after it the file has %v, want %s", got, r.NewKeyID)
	}
}
