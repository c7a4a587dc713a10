package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/resolver-profiles/profilestest"
	"github.com/hostler/hostler/taskcatalog"
)

// shippedIn writes the shipped files into a folder.
func shippedIn(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range profilestest.Shipped() {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestResolverCheckTakesWhatShips(t *testing.T) {
	dir := shippedIn(t)
	status, out, errOut := call(t, "resolver", "check", dir)
	if status != exitDone || !strings.Contains(out, "sha256:") {
		t.Errorf("status %d: %s%s", status, out, errOut)
	}
	status, out, errOut = call(t, "resolver", "check", "-o", "json", filepath.Join(dir, "nvidia.yaml"), filepath.Join(dir, "generic.yaml"))
	var said checked
	if err := json.Unmarshal([]byte(out), &said); err != nil || status != exitDone || !said.OK || len(said.Files) != 2 || said.Problems == nil {
		t.Errorf("status %d: %s%s", status, out, errOut)
	}
}

func TestResolverCheckNamesEveryProblemByFileAndLine(t *testing.T) {
	dir := shippedIn(t)
	bad := filepath.Join(dir, "zz.yaml")
	text := "command_profiles:\n  - {id: x, command: /bin/sh, user: root, timeout_seconds: 0}\n"
	if err := os.WriteFile(bad, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	status, out, errOut := call(t, "resolver", "check", dir)
	if status != exitFailed || errOut != "error: profiles_invalid: the set of profiles has 3 problems\n" {
		t.Errorf("status %d: %s", status, errOut)
	}
	for _, want := range []string{bad + ":2: runs_other_programs: ", bad + ":2: out_of_bounds: ", bad + ":2: unused_profile: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	status, out, _ = call(t, "resolver", "check", "-o", "json", dir)
	var said checked
	if err := json.Unmarshal([]byte(out), &said); err != nil || status != exitFailed || said.OK || len(said.Problems) != 3 || said.Problems[0].Line != 2 {
		t.Errorf("status %d: %s", status, out)
	}
	// A vendor's file alone is no set.
	if status, out, _ := call(t, "resolver", "check", filepath.Join(dir, "amd.yaml")); status != exitFailed || !strings.Contains(out, "fallback_missing") {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestResolverCheckRefusesWhatItCannotRead(t *testing.T) {
	for _, args := range [][]string{{}, {"/nowhere"}, {t.TempDir()}, {"--here=maybe", "x"}, {"-o", "xml", "x"}} {
		status, _, errOut := call(t, append([]string{"resolver", "check"}, args...)...)
		if status != exitUsage || !strings.HasPrefix(errOut, "error: bad_usage: ") {
			t.Errorf("%v: status %d: %s", args, status, errOut)
		}
	}
}

func TestResolverCheckHereJudgesTheRuleThatWinsHere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files that belong to root")
	}
	root, dir := t.TempDir(), shippedIn(t)
	bin := filepath.Join(root, "usr", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	program := func(name string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("\x7fELF…"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(bin, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	program("nvidia-smi", 0o775)
	program("nvidia-ctk", 0o755)
	check := func(facts map[string]string) (checked, error) {
		cmd := newResolverCheck(root, func(context.Context) (map[string]string, error) { return facts, nil })
		var out bytes.Buffer
		cmd.SetArgs([]string{"--here", "-o", "json", dir})
		cmd.SetOut(&out)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		var said checked
		if jsonErr := json.Unmarshal(out.Bytes(), &said); jsonErr != nil {
			t.Fatalf("%v: %s", jsonErr, out.Bytes())
		}
		return said, err
	}
	nvlink := map[string]string{"gpu.vendor": "nvidia", "gpu.fabric": "nvlink"}
	said, err := check(nvlink)
	codes := map[taskcatalog.Code]int{}
	for _, p := range said.Problems {
		codes[p.Code]++
		if p.File != "nvidia.yaml" || p.Line == 0 {
			t.Errorf("%s", p)
		}
	}
	if taskcatalog.CodeOf(err, "") != codeProfilesInvalid || said.Rule != "nvidia-nvlink" || codes["executable_insecure"] != 3 || codes["executable_missing"] != 1 {
		t.Errorf("%+v, %v", said, err)
	}
	program("nvidia-smi", 0o755)
	program("systemctl", 0o755)
	if said, err := check(nvlink); err != nil || !said.OK {
		t.Errorf("%+v, %v", said, err)
	}
	// The programs of AMD's rules are missing, and are not checked.
	if said, err := check(map[string]string{"gpu.vendor": "none"}); err != nil || said.Rule != "no-gpu" {
		t.Errorf("%+v, %v", said, err)
	}
}

func TestResolverHelpHasAnExample(t *testing.T) {
	status, out, _ := call(t, "help", "resolver", "check")
	if status != exitDone || !strings.Contains(out, "Examples:") || !strings.Contains(out, "hostler-agent resolver check") {
		t.Errorf("status %d\n%s", status, out)
	}
}
