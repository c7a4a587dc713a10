package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// A version that is gone back to reads the files of a newer one, as long as their form is
// one that it knows.
func TestWhatANewerAgentAddsToItsFilesIsReadOver(t *testing.T) {
	for _, name := range []string{identityFile, rotationFile, pendingFile} {
		for added, readable := range map[string]bool{`"mood":"good",`: true, `"form":1,"mood":"good",`: true, `"form":2,`: false} {
			dir, c, s := member(t)
			if err := s.keepRotation(&rotation{TaskID: "t-1", NodeID: c.id.NodeID, NodeEpoch: c.id.Epoch, KeyFile: "new.key"}); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, name)
			raw, err := os.ReadFile(file)
			if name == pendingFile {
				raw, err = []byte(`{"token_sha256":"aa","key":"b.key"}`), nil
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("{"+added+strings.TrimPrefix(string(raw), "{")), 0o600); err != nil {
				t.Fatal(err)
			}
			again, err := Open(dir, func() time.Time { return noon })
			if err != nil {
				t.Fatal(err)
			}
			err = again.Load()
			if name == pendingFile {
				_, err = again.pending()
			}
			if readable && (err != nil || again.Rotating() != "t-1" && name != pendingFile) || !readable && taskcatalog.CodeOf(err, "") != CodeStateInvalid {
				t.Errorf("%s with %s: %v", name, added, err)
			}
			// It is whole: nobody is told to throw it away.
			if !readable && (strings.Contains(err.Error(), "enrol the node again") || strings.Contains(err.Error(), "remove it")) {
				t.Errorf("%s with %s: %v", name, added, err)
			}
			_ = again.Close()
		}
	}
}
