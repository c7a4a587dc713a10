package steps

import (
	"os"
	"testing"
	"testing/synctest"

	"github.com/hostler/hostler/taskcatalog"
)

func TestAFileIsHeldAgainstItsDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlob(t, "https_signed", "models.example/weights.bin")
		if _, err := b.do(); err != nil {
			t.Fatal(err)
		}
		kind, _ := Lookup("artifact.verify")
		b.args = Args{"path": blobName, "digest": b.args["digest"]}
		verified := func(code taskcatalog.Code) {
			t.Helper()
			proof, done, err := kind.Look(t.Context(), b.step())
			if err != nil || done != (code == "") {
				t.Errorf("a look says %v, %v", done, err)
			}
			if did, err := kind.Do(t.Context(), b.step()); taskcatalog.CodeOf(err, "") != code || code == "" && did != proof {
				t.Errorf("%+v %v, want %q", did, err, code)
			}
		}
		verified("")
		for _, change := range []func() error{
			func() error { return os.Truncate(b.path(blobName), blobSize-1) },
			func() error { b.most = 10; return nil },
			func() error { return os.Rename(b.path(blobName), b.path(blobName+".away")) },
			func() error { b.most = 1 << 30; return os.Symlink(b.path(blobName+".away"), b.path(blobName)) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			verified(taskcatalog.CodeDigestMismatch)
		}
	})
}
