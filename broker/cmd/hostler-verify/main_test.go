package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// examples is where the signed examples of package certificate are.
const examples = "../../certificate/testdata/"

func TestAFileIsCheckedAgainstATrustFileAlone(t *testing.T) {
	march := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	flipped := filepath.Join(dir, "flipped.json")
	raw, err := os.ReadFile(examples + "clean.json")
	if err != nil {
		t.Fatal(err)
	}
	raw[4000] ^= 1
	if err := os.WriteFile(flipped, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	trust := "--trust=" + examples + "trust.json"
	later := march.AddDate(0, 2, 0)
	for _, c := range []struct {
		name   string
		args   []string
		now    time.Time
		status int
		says   []string // to either stream
	}{
		{"clean", []string{trust, examples + "clean.json"}, march, 0, []string{
			"Turnover certificate: clean\n", "c-1", "gpu-07", "S6ABNE0T: nvme_sanitize_crypto_erase, clean", "b2d99f481689b069",
			"not covered", "firmware: of mainboard, GPUs, NICs and disks", "tcg_opal: locking ranges",
		}},
		{"flags after the file", []string{examples + "clean.json", "--trust", examples + "trust.json"}, march, 0, []string{"clean"}},
		{"issuer", []string{trust, examples + "issuer.json"}, march, 0, []string{"Example Compute", "https://example.com/hostler/trust.json"}},
		{"receipt", []string{trust, examples + "receipt.json"}, march, 0, []string{"what became of your data", "alloc-42", "not covered", "bmc: its users and settings"}},
		{"short receipt", []string{trust, examples + "short-receipt.json"}, march, 3, []string{"exposure", "rootkit_not_excluded: "}},
		{"attestation", []string{trust, examples + "attestation.json"}, march, 0, []string{"A person's statement", "Bo Witness"}},
		{"short", []string{trust, examples + "short.json"}, march, 3, []string{"Turnover certificate: not clean", "root_requires_fresh_os", "device_missing", "exposure", "maas_token_not_rotated: MAAS keeps the token of gpu-07"}},
		{"late", []string{trust, examples + "clean.json"}, later, 3, []string{"clean when issued, good for handing out until 2026-03-31 12:00:00Z"}},
		{"archive", []string{trust, "--archive", examples + "clean.json"}, later, 0, []string{"clean when issued"}},
		{"archive of a short one", []string{trust, "--archive", examples + "short.json"}, later, 3, []string{"not clean"}},
		{"one byte is another", []string{trust, flipped}, march, 1, []string{"error: bad_signature: "}},
		{"no such file", []string{trust, "nosuch.json"}, march, 2, []string{"error: file_unreadable: "}},
		{"no such trust file", []string{"--trust=nosuch.json", examples + "clean.json"}, march, 2, []string{"error: file_unreadable: "}},
		{"a page that cannot be written", []string{trust, "--html=" + filepath.Join(dir, "nosuch", "page.html"), examples + "clean.json"}, march, 2, []string{"error: output_failed: "}},
		{"no trust file", []string{"--trust=" + examples + "clean.json", examples + "clean.json"}, march, 2, []string{"error: trust_invalid: "}},
		{"nothing to believe", []string{examples + "clean.json"}, march, 2, []string{"error: bad_usage: ", "--trust"}},
		{"two files", []string{trust, "a", "b"}, march, 2, []string{"error: bad_usage: "}},
		{"no file", []string{trust}, march, 2, []string{"error: bad_usage: "}},
		{"a flag that is none", []string{"--net"}, march, 2, []string{"error: bad_usage: "}},
		{"help", []string{"--help"}, march, 0, []string{"Usage: hostler-verify"}},
		{"version", []string{"--version"}, march, 0, []string{"hostler-verify 0.0.0-dev"}},
	} {
		var out, problems bytes.Buffer
		if got := run(c.args, &out, &problems, c.now); got != c.status {
			t.Errorf("%s: exit status %d, want %d: %s", c.name, got, c.status, problems.String())
		}
		for _, says := range c.says {
			if !strings.Contains(out.String()+problems.String(), says) {
				t.Errorf("%s does not say %q:\n%s%s", c.name, says, out.String(), problems.String())
			}
		}
		if c.status == 1 && out.Len() > 0 {
			t.Errorf("%s: nothing in the file can be believed, and it is shown: %s", c.name, out.String())
		}
	}
}

// A full disk says nothing about the file: status 1 would mean that the file cannot be believed.
func TestAnOutputThatCannotBeWrittenIsNoVerdict(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	var problems bytes.Buffer
	args := []string{"--trust", examples + "trust.json", examples + "clean.json"}
	if got := run(args, full, &problems, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)); got != 2 || !strings.HasPrefix(problems.String(), "error: output_failed: ") {
		t.Errorf("exit status %d: %s", got, problems.String())
	}
}

func TestThePageIsTheOneOfTheCertificate(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	var out, problems bytes.Buffer
	if got := run([]string{"--trust", examples + "trust.json", "--html", page, examples + "clean.json"}, &out, &problems, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)); got != 0 {
		t.Fatalf("exit status %d: %s", got, problems.String())
	}
	want, err := os.ReadFile(examples + "clean.html")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the page differs from that of hostler certificate verify: %v", err)
	}
}

// A user of the program can check that it stays off the network: no package in the program can
// speak HTTP or knows a broker.
func TestNothingInItSpeaksToABroker(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 20 {
		t.Fatalf("only %v", deps)
	}
	const module = "github.com/hostler/hostler/"
	may := []string{
		module + "broker/certificate", module + "broker/cmd/hostler-verify", module + "pki", module + "taskcatalog", module + "taskcatalog/lazyregexp",
		module + "taskcatalog/release",
	}
	for _, d := range deps {
		if d == "net/http" || d == "os/exec" || strings.HasPrefix(d, module) && !slices.Contains(may, d) {
			t.Errorf("it has %s in it", d)
		}
	}
}
