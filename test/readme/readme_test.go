package readme

import (
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// blocks are the lines between ```sh and ```, in their order.
func blocks(text string) string {
	var script strings.Builder
	in := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			in = strings.TrimSpace(line) == "```sh"
		case in:
			script.WriteString(line)
		}
	}
	return script.String()
}

const (
	frontPage = "../../README.md"
	walk      = "../../docs/tutorial/walk.md"
)

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// bash runs a script in the repository's root. Processes that the script leaves running end with
// it.
func bash(t *testing.T, within time.Duration, script string, flags ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", append(flags, "-c", script)...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "NO_COLOR=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second // a failing script leaves processes that hold its output
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return string(out), err
}

// The agent of the walk is allowed to look and nothing else, so this may run on any
// machine.
func TestTheCommandsOfReadmeAndWalkWorkAsWritten(t *testing.T) {
	script := blocks(read(t, frontPage)) + blocks(read(t, walk))
	if !strings.Contains(script, "certificate verify") || !strings.Contains(script, "allow: probe") || !strings.Contains(script, "trust show") {
		t.Fatalf("the README's certificate and the walk are not in %q", script)
	}
	out, err := bash(t, 8*time.Minute, script, "-euxo", "pipefail")
	if err != nil {
		t.Fatalf("a command of README or walk fails: %v\n%s", err, out)
	}
	for _, want := range []string{
		"verdict  clean: meets the policy",
		"refused by the node itself", "not_allowed", "refused: exit status 3", "seals             ok",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in what the commands print:\n%s", want, out)
		}
	}
	// The walk must leave nothing that waits for a person.
	_, last, _ := strings.Cut(out, "onboarding cancel")
	for _, stuck := range []string{"rotation_open", "trust_refused", "failed_manual_intervention"} {
		if strings.Contains(last, stuck) {
			t.Errorf("the walk leaves %s behind:\n%s", stuck, last)
		}
	}
}

// endless matches a loop that a condition ends, where a command can begin: a loop over a list ends
// with the list.
var endless = regexp.MustCompile(`(^|[;&|({]|\b(do|then|else|if)\s)\s*(until|while|for\s*\(\()`)

// A loop without an end of its own waits for ever where a program hangs.
func TestEachWaitOfReadmeAndWalkEnds(t *testing.T) {
	for line := range strings.Lines(blocks(read(t, frontPage)) + blocks(read(t, walk))) {
		if endless.MatchString(line) {
			t.Errorf("this wait has no end of its own: %s", line)
		}
	}
	for line, want := range map[string]bool{
		"until grep -q ready log; do sleep 1; done":                       true,
		"  while true; do sleep 1; done":                                  true,
		"serve & B=$!; until grep -q ready log; do sleep 1; done":         true,
		"for i in a b; do while true; do sleep 1; done; done":             true,
		"for ((;;)); do grep -q ready log && break; done":                 true,
		"cd x && for (( ; ; )); do sleep 1; done":                         true,
		"for i in {1..600}; do grep -q ready log && break; done":          false,
		"echo 'nobody is let in until it is lifted' # and meanwhile none": false,
	} {
		if endless.MatchString(line) != want {
			t.Errorf("a wait without an end: %v, want %v: %s", !want, want, line)
		}
	}
}

// shows reports whether a line of output matches a page's line. Dots on the page stand for omitted
// text.
func shows(shown, line string) bool {
	pieces := strings.Split(shown, "…")
	if len(pieces) == 1 {
		return strings.TrimRight(line, " ") == shown
	}
	for i, piece := range pieces {
		before, after, found := strings.Cut(line, strings.TrimSpace(piece))
		if !found || i == 0 && before != "" {
			return false
		}
		line = after
	}
	return true
}

// README's certificate matches the program's output line by line.
func TestTheCertificateOfTheReadmeIsWhatTheProgramPrints(t *testing.T) {
	page := read(t, frontPage)
	_, command, _ := strings.Cut(page, "\nbin/hostler certificate verify ")
	command, rest, _ := strings.Cut(command, "\n")
	_, block, _ := strings.Cut(rest, "where there are dots:\n\n```\n")
	block, _, _ = strings.Cut(block, "\n```")
	if lines := strings.Count(block, "\n"); lines < 15 {
		t.Fatalf("the README shows %d lines of the certificate", lines)
	}
	out, err := bash(t, 5*time.Minute, "go run ./broker/cmd/hostler certificate verify "+command)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	printed, leftOut := strings.Split(out, "\n"), false
	for shown := range strings.SplitSeq(block, "\n") {
		if shown == "…" {
			leftOut = true
			continue
		}
		at := slices.IndexFunc(printed, func(line string) bool { return shows(shown, line) })
		if at < 0 || at > 0 && !leftOut {
			t.Fatalf("the program does not print, there,\n%s\nbut\n%s", shown, out)
		}
		printed, leftOut = printed[at+1:], false
	}
}

// Whoever pastes the first block while something has the port sees why, and gets the
// prompt back.
func TestTheWalkEndsWhereAPortIsTaken(t *testing.T) {
	if taken, err := net.Listen("tcp", "127.0.0.1:7440"); err == nil { // else something else has the port already
		defer taken.Close()
	}
	_, rest, _ := strings.Cut(read(t, walk), "```sh\n")
	first, _, _ := strings.Cut(rest, "```")
	out, err := bash(t, 3*time.Minute, first+"echo the prompt is back\n")
	if err != nil || !strings.Contains(out, "address_in_use") || !strings.Contains(out, "the prompt is back") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// The front page stays short enough to be read to its end.
func TestTheReadmeIsShort(t *testing.T) {
	if n := len(strings.Fields(read(t, frontPage))); n > 900 {
		t.Errorf("README.md has %d words, and shall have no more than 900", n)
	}
}
