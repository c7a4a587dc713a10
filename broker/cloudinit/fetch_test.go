package cloudinit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// fetchFrom runs the commands of the rendered fetch unit one after the other, as systemd does, with
// temporary directories for /etc/hostler-bootstrap and for the state directory. It returns the
// state directory.
func fetchFrom(t *testing.T, url, digest string) (state string, err error) {
	t.Helper()
	in := input(t)
	in.Package = &Package{SHA256: digest, Mirrors: []string{url}}
	files := rendered(t, in)
	etc, state := t.TempDir(), t.TempDir()
	for path, f := range files {
		if name, ok := strings.CutPrefix(path, bootstrapDir); ok {
			if err := os.WriteFile(filepath.Join(etc, name), []byte(f.Content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	source := map[string]string{}
	for line := range strings.Lines(files[bootstrapDir+"source-1"].Content) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		source[name] = value
	}
	if source["URL"] != url {
		t.Fatalf("source 1 is %q, want the mirror %s", source["URL"], url)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ran := 0
	for line := range strings.Lines(files[unitDir+fetchUnit].Content) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=")
		if !ok || strings.HasPrefix(command, "/bin/echo ") {
			continue
		}
		var argv []string
		for _, word := range strings.Fields(command) {
			switch word = strings.ReplaceAll(word, bootstrapDir, etc+"/"); word {
			case "$TLS": // split at blanks, and nothing where it is empty
				argv = append(argv, strings.Fields(source["TLS"])...)
			case "${URL}":
				argv = append(argv, source["URL"])
			default:
				argv = append(argv, word)
			}
		}
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = state, []string{"PATH=/usr/bin:/bin"}
		ran++
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("%s: %v: %s", argv[0], err, out)
			return state, err
		}
	}
	if ran != 3 {
		t.Fatalf("%d commands ran, want fetch, check and move", ran)
	}
	return state, nil
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func TestAPackageThatIsNotThereYetIsFetchedOnceItIs(t *testing.T) {
	content := bytes.Repeat([]byte("the agent "), 1000)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			http.Error(w, "not published yet", http.StatusNotFound)
			return
		}
		_, _ = w.Write(content)
	}))
	defer server.Close()
	state, err := fetchFrom(t, server.URL+"/agent.deb", digestOf(content))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(state, "agent.deb")); err != nil || !bytes.Equal(got, content) || asked.Load() != 2 {
		t.Errorf("after %d requests there are %d bytes (%v)", asked.Load(), len(got), err)
	}
}

// A mirror, or an attacker on the way to it, serves something else. No file remains under the name
// of the installed package.
func TestAPackageWithAnotherDigestIsNeverInstalled(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("an implant"))
	}))
	defer server.Close()
	state, err := fetchFrom(t, server.URL+"/agent.deb", digestOf([]byte("the agent")))
	if err == nil {
		t.Error("the unit ended well")
	}
	if _, err := os.Stat(filepath.Join(state, "agent.deb")); !os.IsNotExist(err) {
		t.Errorf("agent.deb is there (%v)", err)
	}
	// The installing unit checks once more, before dpkg.
	main := rendered(t, input(t))[unitDir+mainUnit].Content
	check, install := strings.Index(main, "/usr/bin/sha256sum --check --strict "+bootstrapDir+"agent.deb.sha256"), strings.Index(main, "/usr/bin/dpkg ")
	if check < 0 || install < check {
		t.Error("the digest is not checked before the package is installed")
	}
}
