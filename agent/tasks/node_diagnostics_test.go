package tasks

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

func TestMain(m *testing.M) {
	if os.Args[0] == "/usr/bin/journalctl" {
		os.Exit(sayJournal())
	}
	os.Exit(m.Run())
}

// sayJournal plays journalctl of a machine in a directory: it prints the file play/journal and
// keeps its arguments.
func sayJournal() int {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 99
	}
	dir := filepath.Join(strings.TrimSuffix(exe, "/usr/bin/journalctl"), "play")
	raw, err := os.ReadFile(filepath.Join(dir, "journal"))
	if err != nil || os.WriteFile(filepath.Join(dir, "argv"), []byte(strings.Join(os.Args, " ")), 0o600) != nil {
		return 98
	}
	_, _ = os.Stdout.Write(raw)
	return 0
}

// remembers is a ledger with these tasks and facts.
type remembers struct {
	tasks []host.TaskRecord
	facts *taskcatalog.Facts
}

func (r remembers) LatestTasks(most int) ([]host.TaskRecord, int, error) {
	n := min(most, len(r.tasks))
	return r.tasks[:n], len(r.tasks) - n, nil
}

func (r remembers) Facts() (taskcatalog.Facts, bool, error) {
	if r.facts == nil {
		return taskcatalog.Facts{}, false, nil
	}
	return *r.facts, true, nil
}

// entry is a line of the journal, as journalctl prints it.
func entry(message any) string {
	raw, err := json.Marshal(map[string]any{
		"__REALTIME_TIMESTAMP": "1790000000000000", "_PID": "71", "PRIORITY": "6", "SYSLOG_IDENTIFIER": "hostler-agent", "MESSAGE": message,
	})
	if err != nil {
		panic(err)
	}
	return string(raw) + "\n"
}

// journaling returns a box with a journal and the other things to collect.
func journaling(t *testing.T, journal string) (*host.Host, string) {
	t.Helper()
	h, dir := hosttest.Box(t)
	self, err := os.Executable()
	hosttest.OK(t, err)
	to := filepath.Join(dir, "usr/bin/journalctl")
	hosttest.OK(t, os.MkdirAll(filepath.Dir(to), 0o755))
	if os.Link(self, to) != nil {
		raw, err := os.ReadFile(self)
		hosttest.OK(t, err)
		hosttest.OK(t, os.WriteFile(to, raw, 0o755))
	}
	hosttest.Put(t, dir, "play/journal", journal)
	hosttest.Put(t, dir, "dev/kmsg", "3,1234,98765432,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
	hosttest.Put(t, dir, "usr/lib/hostler-agent/versions/1.2.3/hostler-agent", "the program")
	hosttest.Put(t, dir, "var/lib/hostler-agent/update/state.json", `{"good":"1.2.2","tries":1}`)
	hosttest.OK(t, os.Symlink("versions/1.2.3", filepath.Join(dir, "usr/lib/hostler-agent/current")))
	if h.Commands, err = command.New(dir, time.Now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hosttest.OK(t, h.Commands.Close()) })
	h.Commands.Account = func(string) (*syscall.Credential, error) {
		return &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()), NoSetGroups: true}, nil
	}
	h.Ledger = remembers{tasks: []host.TaskRecord{{TaskID: "t-1", Type: "node.gpu_scrub", State: "started"}}}
	h.Facts = func(context.Context) (taskcatalog.Facts, error) {
		return taskcatalog.Facts{Keys: map[string]string{"gpu.vendor": "nvidia"}}, nil
	}
	return h, dir
}

// diagnosed runs the task and returns its result, with the archive unpacked.
func diagnosed(t *testing.T, h *host.Host, params string) (*taskcatalog.DiagnosticsResult, map[string]string) {
	t.Helper()
	typ, err := taskcatalog.Latest("node.diagnostics")
	hosttest.OK(t, err)
	p, err := typ.DecodeParams([]byte(params))
	hosttest.OK(t, err)
	got, _, err := diagnostics(t.Context(), &host.Run{Params: p, Host: h})
	hosttest.OK(t, err)
	res := got.(*taskcatalog.DiagnosticsResult)
	if res.Digest != pki.Digest(res.Archive) || res.Bytes != len(res.Archive) || res.Bytes > taskcatalog.MaxArchive {
		t.Errorf("%d bytes, the result says %d and %s", len(res.Archive), res.Bytes, res.Digest)
	}
	raw, err := taskcatalog.Encode(res)
	hosttest.OK(t, err)
	if _, err := typ.DecodeResult(raw); err != nil {
		t.Error(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(res.Archive))
	hosttest.OK(t, err)
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return res, files
		}
		hosttest.OK(t, err)
		text, err := io.ReadAll(r)
		hosttest.OK(t, err)
		files[head.Name] = string(text)
	}
}

func partNamed(t *testing.T, res *taskcatalog.DiagnosticsResult, name string) taskcatalog.DiagnosticsPart {
	t.Helper()
	i := slices.IndexFunc(res.Parts, func(p taskcatalog.DiagnosticsPart) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no part %s in %+v", name, res.Parts)
	}
	return res.Parts[i]
}

func TestDiagnosticsCollectWhatTellsWhy(t *testing.T) {
	h, dir := journaling(t, entry("the second line")+entry("the first line"))
	res, files := diagnosed(t, h, `{"since_seconds":3600}`)
	for name, want := range map[string]string{
		"journal.txt": "2026-09-21T14:13:20.000000Z <6> hostler-agent[71]: the second line\n2026-09-21T14:13:20.000000Z <6> hostler-agent[71]: the first line\n",
		"kernel.txt":  "[    98.765432] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n",
		"facts.json":  `"gpu.vendor": "nvidia"`,
		"slots.json":  `"current": "versions/1.2.3"`,
		"ledger.json": `"state": "started"`,
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %s:\n%s", name, want, files[name])
		}
		if p := partNamed(t, res, name); p.Bytes != len(files[name]) || p.Missing != "" || p.Cut {
			t.Errorf("%+v", p)
		}
	}
	for _, want := range []string{`"good": "1.2.2"`, `"sha256": "` + strings.TrimPrefix(pki.Digest([]byte("the program")), "sha256:") + `"`} {
		if !strings.Contains(files["slots.json"], want) {
			t.Errorf("no %s in %s", want, files["slots.json"])
		}
	}
	argv := hosttest.Read(t, dir, "play/argv")
	if !strings.HasSuffix(argv, fmt.Sprintf("--unit=hostler-agent.service --unit=hostler-agent-watch.service --since=@%d", 1_790_000_000-3600)) {
		t.Error(argv)
	}
}

// planted returns secrets of every kind that an agent sees, and the lines in which they are
// planted.
func planted(t *testing.T, dir string) (lines, secrets []string) {
	random := func(n int) []byte {
		b := make([]byte, n)
		rand.New(rand.NewSource(int64(n))).Read(b)
		return b
	}
	token, err := pki.NewEnrollToken(bytes.NewReader(random(32)))
	hosttest.OK(t, err)
	enrol := token.Reveal()
	operator := "hso_" + base64.RawURLEncoding.EncodeToString(random(33)[1:])
	body := base64.StdEncoding.EncodeToString(random(121))
	key := "-----BEGIN PRIVATE KEY-----\n" + body[:64] + "\n" + body[64:128] + "\n" + body[128:] + "\n-----END PRIVATE KEY-----\n"
	hosttest.Put(t, dir, "var/lib/hostler-agent/node-1.key", key)
	hosttest.Put(t, dir, hwSyncCredentials, "reporting:\n    maas:\n        consumer_key: consumerkey\n        endpoint: http://10.0.0.2/MAAS\n        token_key: tokenkeytokenkey\n        token_secret: \"tokensecret9\"\n")
	session := base64.RawURLEncoding.EncodeToString(random(34))
	lines = []string{
		"enrolling with " + enrol, "operator said " + operator, "key is\n" + key, "its last line is " + body[128:], "its first " + body[:64],
		"sync with consumerkey and tokenkeytokenkey and tokensecret9", "relay token " + session, `registry {"username":"pull","password":"pull-secret"}`,
		"Authorization: Bearer minted.token.value", "pulling https://pull:basic-secret@registry/agent", "ipmi --password bmc-secret", "BMC_PASSWORD=bmc2-secret",
		"bundle at AGE-SECRET-KEY-1QYQSZQGPQYQSZQGPQYQSZ", "root:$6$abcdefgh$crypted-hash.of/it:1", "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJub2RlIn0.signature",
		"session of alice ended, /home/alice/.ssh",
	}
	return lines, []string{
		enrol, operator, body[:64], body[64:128], body[128:], "consumerkey", "tokenkeytokenkey", "tokensecret9", session, "pull-secret", "minted.token.value",
		"basic-secret", "bmc-secret", "bmc2-secret", "QYQSZQGPQYQSZ", "crypted-hash", "eyJzdWIi", "alice", enrol[4:], operator[4:],
	}
}

func TestNoSecretIsInAnArchive(t *testing.T) {
	h, dir := journaling(t, "")
	lines, secrets := planted(t, dir)
	hosttest.OK(t, h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: 20001}))
	var journal strings.Builder
	for _, l := range lines {
		journal.WriteString(entry(l))
		octets := []int{}
		for _, b := range []byte("\xff" + l) {
			octets = append(octets, int(b))
		}
		journal.WriteString(entry(octets)) // as the journal stores text that is no UTF-8
	}
	hosttest.Put(t, dir, "play/journal", journal.String())
	hosttest.Put(t, dir, "dev/kmsg", "3,1,1,-;nvidia: "+strings.ReplaceAll(strings.Join(lines, " and "), "\n", " "))
	state, err := json.Marshal(map[string]any{"credential": "plain-secret", "log": lines, lines[0]: 1})
	hosttest.OK(t, err)
	hosttest.Put(t, dir, "var/lib/hostler-agent/update/state.json", string(state))
	facts := taskcatalog.Facts{Libraries: []taskcatalog.LibraryFacts{{Name: "survey", Detail: strings.Join(lines, "; ")}}}
	h.Ledger = remembers{facts: &facts, tasks: []host.TaskRecord{{TaskID: "t-1", Code: taskcatalog.Code(lines[0])}}}
	h.Facts = func(context.Context) (taskcatalog.Facts, error) {
		t.Error("the GPUs were asked with a tenant on the node")
		return facts, nil
	}

	res, files := diagnosed(t, h, `{}`)
	for name, text := range files {
		for _, secret := range append(secrets, "plain-secret") {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %q:\n%s", name, secret, text)
			}
		}
	}
	for _, name := range []string{"journal.txt", "kernel.txt", "facts.json", "slots.json", "ledger.json"} {
		if p := partNamed(t, res, name); p.Redacted == 0 || p.Missing != "" {
			t.Errorf("nothing was planted in %s, or it is not there: %+v", name, p)
		}
	}
	if !strings.Contains(files["journal.txt"], "[user 20001]") || !strings.Contains(files["facts.json"], "before the tenant") {
		t.Errorf("%s\n%s", files["journal.txt"], files["facts.json"])
	}
}

func TestFactsThatWereNotKeptAreMissingWithTheReason(t *testing.T) {
	h, _ := journaling(t, "")
	hosttest.OK(t, h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: host.FirstUID}))
	h.Ledger = remembers{}
	res, _ := diagnosed(t, h, `{}`)
	if p := partNamed(t, res, "facts.json"); p.Missing != "a tenant is on the node, and no facts are recorded" {
		t.Errorf("facts.json is missing because %q", p.Missing)
	}
}

func TestAHostileJournalIsBoundedAndEscaped(t *testing.T) {
	noise := make([]byte, 8<<10)
	rand.New(rand.NewSource(1)).Read(noise)
	octets := []int{}
	for _, b := range noise {
		octets = append(octets, int(b))
	}
	hostile := entry("\x1b[2J\x1b]0;owned\a\r\nforged: all is well\u202e") + entry(octets) + entry(nil) + entry([]string{"a", "b"}) + entry(map[string]int{"x": 1}) +
		"no JSON at all \xff\n" + `{"MESSAGE":"without a time"}` + "\n" + entry(strings.Repeat("x", 300<<10))
	var flood strings.Builder
	for i := range 2000 {
		flood.WriteString(entry(fmt.Sprintf("line %d %s", i, strings.Repeat("y", i%300))))
	}
	h, _ := journaling(t, hostile+flood.String()+strings.Repeat("z", 2<<20))
	res, files := diagnosed(t, h, `{}`)
	text := files["journal.txt"]
	p := partNamed(t, res, "journal.txt")
	if !p.Cut || p.Missing == "" || len(text) > 192<<10 || !utf8.ValidString(text) {
		t.Errorf("%+v, %d bytes", p, len(text))
	}
	for line := range strings.Lines(text) {
		if len(line) > maxLogLine+1 || !strings.HasPrefix(line, "2026-") || !strings.HasSuffix(line, "\n") {
			t.Errorf("a line is %.80q, of %d bytes", line, len(line))
		}
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\u202e' }) {
			t.Errorf("not escaped: %q", line)
		}
	}
	if !strings.Contains(text, `\x1b[2J\x1b]0;owned\x07\x0d\x0aforged: all is well\u{202e}`) {
		t.Errorf("%.300s", text)
	}
}

func TestWhatCannotBeHadCostsItsPartAlone(t *testing.T) {
	h, dir := journaling(t, entry("x"))
	hosttest.OK(t, os.Remove(filepath.Join(dir, "usr/bin/journalctl")))
	hosttest.OK(t, os.Remove(filepath.Join(dir, "dev/kmsg")))
	hosttest.OK(t, os.RemoveAll(filepath.Join(dir, "usr/lib/hostler-agent")))
	hosttest.Put(t, dir, "var/lib/hostler-agent/update/state.json", "no JSON")
	h.Facts = func(context.Context) (taskcatalog.Facts, error) {
		return taskcatalog.Facts{}, errors.New("token=geheim")
	}
	many := make([]host.TaskRecord, 5000)
	for i := range many {
		many[i] = host.TaskRecord{TaskID: fmt.Sprint("t-", i), Type: "node.drain"}
	}
	h.Ledger = remembers{tasks: many}
	res, files := diagnosed(t, h, `{}`)
	for _, name := range []string{"journal.txt", "kernel.txt"} {
		if p := partNamed(t, res, name); p.Missing == "" || files[name] != "" {
			t.Errorf("%+v", p)
		}
	}
	if p := partNamed(t, res, "facts.json"); !strings.Contains(p.Missing, "[redacted]") || strings.Contains(p.Missing, "geheim") {
		t.Errorf("%+v", p)
	}
	if !strings.Contains(files["slots.json"], "is not JSON") || !strings.Contains(files["ledger.json"], `"tasks_omitted": 4850`) {
		t.Errorf("%s\n%.200s", files["slots.json"], files["ledger.json"])
	}
	h.Facts = func(context.Context) (taskcatalog.Facts, error) {
		return taskcatalog.Facts{Keys: map[string]string{"k": strings.Repeat("v", 200<<10)}}, nil
	}
	res, files = diagnosed(t, h, `{}`)
	if p := partNamed(t, res, "facts.json"); p.Missing == "" || files["facts.json"] != "" {
		t.Errorf("%+v", p)
	}
}

func TestDiagnosticsThatAreCanceledEnd(t *testing.T) {
	h, _ := journaling(t, entry("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res, _, err := diagnostics(ctx, &host.Run{Params: &taskcatalog.DiagnosticsParams{}, Host: h})
	if res != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", res, err)
	}
}
