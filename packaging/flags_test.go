package packaging

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The compiler gets no input that could make two builds of one commit differ: no path, time or
// machine name. TestTwoBuildsAreOneRelease (e2e_all) checks that two builds are equal.
func TestABuildIsToldNothingOfTheMachine(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "make", "-n", "-B", "bin/hostler-agent", "VERSION=9.9.9", "COMMIT=abc")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "go build") })
	if at < 0 {
		t.Fatalf("nothing is built: %s", out)
	}
	build := lines[at]
	if !strings.Contains(build, " -trimpath ") {
		t.Errorf("the program has paths of the machine in it: %s", build)
	}
	var said []string
	for _, m := range regexp.MustCompile(`-X ([^ ']+)`).FindAllStringSubmatch(build, -1) {
		said = append(said, m[1])
	}
	if !slices.Equal(said, []string{"main.version=9.9.9", "main.commit=abc"}) {
		t.Errorf("it is told %v, and is to be told its version and its commit", said)
	}
}
