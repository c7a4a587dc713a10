package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// After a revert the older version reads a newer version's files, as long as it knows their form.
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
			// The file is intact: no message may advise to remove it.
			if !readable && (strings.Contains(err.Error(), "enrol the node again") || strings.Contains(err.Error(), "remove the file")) {
				t.Errorf("%s with %s: %v", name, added, err)
			}
			_ = again.Close()
		}
	}
}
