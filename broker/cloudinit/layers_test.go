package cloudinit

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// layer runs a layer as its unit does, and returns its record.
func (h *host) layer(name string) (record, out string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Join(h.root, "var/lib/hostler-bootstrap"), 0o755); err != nil {
		h.t.Fatal(err)
	}
	h.write("layer", h.here(script("layer")), 0o755)
	h.write("etc/hostler-bootstrap/layer-"+name, h.here(script(name)), 0o644)
	said, err := exec.Command("/bin/sh", filepath.Join(h.root, "layer"), "run", name).CombinedOutput()
	ended := exec.Command("/bin/sh", filepath.Join(h.root, "layer"), "ended", name)
	ended.Env = []string{"SERVICE_RESULT=success"}
	if err != nil {
		ended.Env = []string{"SERVICE_RESULT=exit-code", "EXIT_STATUS=" + fmt.Sprint(err.(*exec.ExitError).ExitCode())}
	}
	if out, err := ended.CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	return h.read("var/lib/hostler-bootstrap/layers/" + name), string(said)
}

func TestTheSitesBundleRunsOnceAndOnlyWithItsDigest(t *testing.T) {
	script := "#!/bin/sh\necho ran >>ran\nexit $(cat exit)\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, script) }))
	defer server.Close()
	h := newHost(t)
	state := "var/lib/hostler-bootstrap/"
	h.write(state+"exit", "3\n", 0o644)
	give := func(content string) {
		h.write("etc/hostler-bootstrap/site", fmt.Sprintf("%s/site %x\n", server.URL, sha256.Sum256([]byte(content))), 0o644)
	}
	give("another")
	if record, out := h.layer("site"); !strings.HasPrefix(record, "failed\nwhat http://127.0.0.1") || !strings.Contains(record, "is not sha256:") || h.read(state+"ran") != "" {
		t.Fatalf("%q ran %q: %s", record, h.read(state+"ran"), out)
	}
	give(script)
	if record, out := h.layer("site"); record != "failed\nthe site's bundle ended with status 3\n" {
		t.Fatalf("%q: %s", record, out)
	}
	server.Close() // a fetched bundle is not fetched again
	h.write(state+"exit", "0\n", 0o644)
	for range 2 {
		if record, out := h.layer("site"); record != "done\n\n" {
			t.Fatalf("%q: %s", record, out)
		}
	}
	if ran := h.read(state + "ran"); ran != "ran\nran\n" {
		t.Errorf("it ran %q, want once with each status", ran)
	}
	h.write("etc/hostler-bootstrap/site", server.URL+"/site "+strings.Repeat("0", 64)+"\n", 0o644)
	if err := os.Remove(filepath.Join(h.root, state, "layers/site")); err != nil {
		t.Fatal(err)
	}
	h.program("curl", "exit 7")
	if record, _ := h.layer("site"); record != "failed\ncannot fetch "+server.URL+"/site (curl's status 7)\n" {
		t.Errorf("%q", record)
	}
}

func TestALayerThatWasEndedFromOutsideSaysByWhat(t *testing.T) {
	h := newHost(t)
	h.write("layer", h.here(script("layer")), 0o755)
	cmd := exec.Command("/bin/sh", filepath.Join(h.root, "layer"), "ended", "disks")
	cmd.Env = []string{"SERVICE_RESULT=timeout", "EXIT_STATUS=TERM"}
	if out, err := cmd.CombinedOutput(); err != nil || h.read("var/lib/hostler-bootstrap/layers/disks") != "failed\nit ended by timeout TERM\n" {
		t.Errorf("%v: %s: %q", err, out, h.read("var/lib/hostler-bootstrap/layers/disks"))
	}
}

// A tenant with root may have planted links where a layer writes as root at the next boot.
func TestALayerWritesThroughNoLinkThatWasPlanted(t *testing.T) {
	const state = "var/lib/hostler-bootstrap/"
	for _, planted := range []string{"layers/hw-sync", "layers/hw-sync.new", "layers/hw-sync.said"} {
		h := newHost(t)
		h.write("victim/file", "theirs", 0o644)
		h.write(state+"layers/site", "done\n", 0o644)
		to := "victim/file"
		if planted == "layers/hw-sync" {
			to = "victim" // a move would go into this directory
		}
		if err := os.Symlink(filepath.Join(h.root, to), filepath.Join(h.root, state, planted)); err != nil {
			t.Fatal(err)
		}
		record, out := h.layer("hw-sync")
		if !strings.HasPrefix(record, "failed\nMAAS's ") {
			t.Errorf("%s: %q: %s", planted, record, out)
		}
		if in, err := os.ReadDir(filepath.Join(h.root, "victim")); err != nil || len(in) != 1 || h.read("victim/file") != "theirs" {
			t.Errorf("%s: it was followed: %v, %q", planted, in, h.read("victim/file"))
		}
	}
	h := newHost(t)
	h.write("victim/file", "theirs", 0o644)
	h.write(state+"laid-out", "", 0o644)
	if err := os.Symlink(filepath.Join(h.root, "victim"), filepath.Join(h.root, state, "layers")); err != nil {
		t.Fatal(err)
	}
	h.write("layer", h.here(script("layer")), 0o755)
	for _, verb := range []string{"run", "ended"} {
		out, err := exec.Command("/bin/sh", filepath.Join(h.root, "layer"), verb, "hw-sync").CombinedOutput()
		if in, _ := os.ReadDir(filepath.Join(h.root, "victim")); err == nil || len(in) != 1 || !strings.Contains(string(out), "layers is a link") {
			t.Errorf("%s in a directory that is a link: %v, %s: %v", verb, err, out, in)
		}
	}
}
