package profiles

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestNoSetMayNameWhatTheAgentKeepsToItself(t *testing.T) {
	own := maps.Clone(DiskTools())
	maps.Copy(own, BMCTools())
	maps.Copy(own, LogTools())
	maps.Copy(own, PackageTools())
	maps.Copy(own, PythonTools())
	maps.Copy(own, ClusterTools())
	for id, p := range own {
		if !p.Own() {
			t.Errorf("%s is not the agent's own", id)
		}
		text := "hardware_profiles:\n  - name: fallback\n    match: {}\n    overrides: { gpu.runtime.check: x }\ncommand_profiles:\n  - id: x\n    command: " +
			p.Command + "\n    user: root\n    timeout_seconds: 5\n"
		set, problems := Parse(File{Name: "x.yaml", Text: []byte(text)})
		if set != nil || !slices.ContainsFunc(problems, func(p Problem) bool { return p.Code == CodeRunsPrograms }) {
			t.Errorf("a set may name %s: %v", p.Command, problems)
		}
	}
	set, problems := Parse(File{Name: "x.yaml", Text: []byte("hardware_profiles:\n  - name: fallback\n    match: {}\n    overrides: { gpu.runtime.check: x }\ncommand_profiles:\n  - id: x\n    own: true\n    command: /usr/sbin/nvme\n    user: root\n    timeout_seconds: 5\n")})
	if set != nil || len(problems) == 0 {
		t.Error("a set says of itself that it is the agent's own")
	}
}

// The program's default is a format that erases nothing.
func TestAFormatThatErasesNothingCannotBeAskedFor(t *testing.T) {
	format := DiskTools()["nvme_format"]
	args := map[string]any{"controller": "/dev/nvme0", "nsid": 1, "lbaf": 0}
	for _, ses := range []any{nil, 0, 3, 7, -1, "1", true} {
		if ses != nil {
			args["erase"] = ses
		}
		if argv, err := format.Argv(args); err == nil {
			t.Errorf("erase %v becomes %q", ses, argv)
		}
	}
	args["erase"] = 1
	argv, err := format.Argv(args)
	if err != nil || strings.Join(argv, " ") != "/usr/sbin/nvme format --force --timeout=14400000 --ses=1 --lbaf=0 --namespace-id=1 /dev/nvme0" {
		t.Errorf("%q, %v", argv, err)
	}
}

// With other words the same program adds users, changes addresses and switches the
// machine off.
func TestWhatIsAskedOfABMCOnlyReads(t *testing.T) {
	reads := []string{"mc info", "channel info 1", "channel getaccess 1", "lan print 1"}
	for id, p := range BMCTools() {
		args := map[string]any{}
		for _, a := range p.ArgSchema {
			args[a.Name] = 1
		}
		argv, err := p.Argv(args)
		if err != nil {
			t.Fatal(err)
		}
		line := strings.Join(argv, " ")
		said, ok := strings.CutPrefix(line, "/usr/bin/ipmitool -I open ")
		if !ok || !slices.Contains(reads, said) {
			t.Errorf("%s runs %q", id, line)
		}
		for _, wrong := range []any{0, 12, -1, "1", "1 set", nil} {
			if len(p.ArgSchema) == 0 {
				continue
			}
			if argv, err := p.Argv(map[string]any{"channel": wrong}); err == nil {
				t.Errorf("%s with channel %v runs %q", id, wrong, argv)
			}
		}
	}
}
