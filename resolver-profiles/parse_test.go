package profiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/taskcatalog"
)

// whole is a set without fault, on which each case makes one change.
const whole = `hardware_profiles:
  - name: gpu
    match: {gpu.vendor: nvidia}
    overrides:
      gpu.runtime.check: tool
  - name: rest
    match: {}
    overrides: {}
command_profiles:
  - id: tool
    command: /usr/bin/tool
    base_args: [status]
    user: root
    timeout_seconds: 10
`

func with(old, new string) string {
	if !strings.Contains(whole, old) {
		panic("the whole set has no " + old)
	}
	return strings.Replace(whole, old, new, 1)
}

func systemctlWith(args string) string {
	return strings.Replace(with("/usr/bin/tool", "/usr/bin/systemctl"), "[status]", args, 1)
}

func TestWhetherAUnitIsActiveMayBeAsked(t *testing.T) {
	for _, args := range []string{"[is-active, nvidia-fabricmanager.service]", "[is-failed, getty@tty1.service, a.timer]"} {
		if _, problems := Parse(File{"set.yaml", []byte(systemctlWith(args))}); problems != nil {
			t.Errorf("%s: %v", args, problems)
		}
	}
}

func withArg(arg string) string { return whole + "    arg_schema: [" + arg + "]\n" }

// refusals are sets with one fault each, the line it is on and its code.
var refusals = []struct {
	name, text string
	line       int
	code       taskcatalog.Code
}{
	{"a shell", with("/usr/bin/tool", "/bin/sh"), 11, CodeRunsPrograms},
	{"an interpreter with its version", with("/usr/bin/tool", "/usr/bin/python3.11"), 11, CodeRunsPrograms},
	{"env", with("/usr/bin/tool", "/usr/bin/env"), 11, CodeRunsPrograms},
	{"the loader", with("/usr/bin/tool", "/lib64/ld-linux-x86-64.so.2"), 11, CodeRunsPrograms},
	{"a shell as a fixed argument", with("[status]", "[exec, /bin/bash]"), 12, CodeRunsPrograms},
	{"a shell's bare name as a fixed argument", with("[status]", "[sh]"), 12, CodeRunsPrograms},
	{"a shell that an option names", with("[status]", "['--filter=/bin/sh']"), 12, CodeRunsPrograms},
	{"a shell's bare name that an option names", with("[status]", "['--shell=bash']"), 12, CodeRunsPrograms},
	{"an interpreter in a list of an option", with("[status]", "['--hooks=a:/usr/bin/python3.11,b']"), 12, CodeRunsPrograms},
	{"a program that a library calls", with("[status]", "['--ldconfig=@/bin/dash']"), 12, CodeRunsPrograms},
	{"an interpreter with what it was made for", with("/usr/bin/tool", "/usr/bin/perl5.36-x86_64-linux-gnu"), 11, CodeRunsPrograms},
	{"a disk writer as a fixed argument", with("[status]", "[/usr/bin/dd]"), 12, CodeRunsPrograms},
	{"the end of the machine as a fixed argument", with("[status]", "['--hook=/usr/sbin/reboot']"), 12, CodeRunsPrograms},
	{"a program that writes", with("/usr/bin/tool", "/usr/bin/tee"), 11, CodeRunsPrograms},
	{"systemctl that starts", systemctlWith("[start, tenant.service]"), 11, CodeRunsPrograms},
	{"systemctl that edits", systemctlWith("[edit, --stdin, tenant.service]"), 11, CodeRunsPrograms},
	{"systemctl of another host", systemctlWith("[is-active, --host=tenant, a.service]"), 11, CodeRunsPrograms},
	{"systemctl with its option first", systemctlWith("[--root=/x, is-active, a.service]"), 11, CodeRunsPrograms},
	{"systemctl that shows what units hold", systemctlWith("[show, a.service]"), 11, CodeRunsPrograms},
	{"systemctl of a pattern", systemctlWith("[is-active, '*.service']"), 11, CodeRunsPrograms},
	{"systemctl of nothing", systemctlWith("[is-active]"), 11, CodeRunsPrograms},
	{"systemctl whose unit a step names", systemctlWith("[is-active, a.service]") + "    arg_schema: [{name: a, type: string, pattern: '[a-z]+'}]\n", 11, CodeRunsPrograms},
	{"a relative path", with("/usr/bin/tool", "tool"), 11, CodeNotAbsolute},
	{"a path upwards", with("/usr/bin/tool", "/usr/bin/../bin/tool"), 11, CodePathRefused},
	{"a path with a blank", with("/usr/bin/tool", "/usr/bin/tool -x"), 11, CodePathRefused},
	{"a path that ends in a slash", with("/usr/bin/tool", "/usr/bin/tool/"), 11, CodePathRefused},
	{"a path with a newline", with("/usr/bin/tool", `"/usr/bin/tool\n"`), 11, CodePathRefused},
	{"the agent itself", with("/usr/bin/tool", "/proc/self/exe"), 11, CodePathRefused},
	{"a tenant's file", with("/usr/bin/tool", "/home/alice/tool"), 11, CodePathRefused},
	{"an unknown step kind", with("gpu.runtime.check", "gpu.runtime.chek"), 5, CodeUnknownStep},
	{"an unknown builtin", with(": tool", ": builtin:nvidia.wipe"), 5, CodeUnknownBuiltin},
	{"a builtin for another step", with(": tool", ": builtin:nvidia.probe"), 5, CodeWrongStep},
	{"an unknown command profile", with(": tool", ": tol"), 5, CodeUnknownProfile},
	{"an unknown fact", with("gpu.vendor", "gpu.vender"), 3, CodeUnknownMatchKey},
	{"a value that a fact never has", with("nvidia}", "nvidai}"), 3, CodeUnknownMatchValue},
	{"a value of no fact", with("gpu.vendor: nvidia}", "gpu.architecture: '*'}"), 3, CodeUnknownMatchValue},
	{"no value", with("nvidia}", "[]}"), 3, CodeOutOfBounds},
	{"a rule below one like it", with("  - name: rest", "  - name: again\n    match: {gpu.vendor: nvidia, fabric.type: nvlink}\n    overrides: {}\n  - name: rest"), 6, CodeUnreachable},
	{"a rule that two above it leave nothing", with("  - name: rest", "  - {name: amd, match: {gpu.vendor: amd}, overrides: {}}\n  - {name: both, match: {gpu.vendor: [nvidia, amd]}, overrides: {}}\n  - name: rest"), 7, CodeUnreachable},
	{"no fallback", with("match: {}", "match: {gpu.vendor: amd}"), 1, CodeFallbackMissing},
	{"two fallbacks", with("  - name: rest", "  - {name: all, match: {}, overrides: {}}\n  - name: rest"), 7, CodeFallbackTwice},
	{"two rules of one name", with("name: rest", "name: gpu"), 6, CodeDuplicate},
	{"two command profiles of one id", whole + "  - {id: tool, command: /usr/bin/other, user: root, timeout_seconds: 1}\n", 15, CodeDuplicate},
	{"a command profile that nobody uses", whole + "  - {id: idle, command: /usr/bin/other, user: root, timeout_seconds: 1}\n", 15, CodeUnusedProfile},
	{"a name with a blank", with("name: gpu", "name: a gpu"), 2, CodeBadName},
	{"an id with a slash", strings.ReplaceAll(with("id: tool", "id: a/b"), ": tool", ": a/b"), 10, CodeBadName},
	{"a user with a colon", with("user: root", "user: 'root:0'"), 13, CodeBadName},
	{"no user", with("    user: root\n", ""), 10, CodeMissingKey},
	{"no match", with("    match: {gpu.vendor: nvidia}\n", ""), 2, CodeMissingKey},
	{"an unknown key", with("user: root", "user: root\n    shell: true"), 14, CodeUnknownKey},
	{"a key in wrong case", with("user: root", "User: root"), 13, CodeUnknownKey},
	{"a key twice", with("user: root", "user: root\n    user: root"), 14, CodeDuplicateKey},
	{"a merge", with("user: root", "<<: {user: root}"), 13, CodeWrongType},
	{"a step twice", with("      gpu.runtime.check: tool", "      gpu.runtime.check: tool\n      gpu.runtime.check: tool"), 6, CodeDuplicateKey},
	{"a text for a list", with("[status]", "status"), 12, CodeWrongType},
	{"a number for a text", with("[status]", "[1]"), 12, CodeWrongType},
	{"a text for a number", with("seconds: 10", "seconds: '10'"), 14, CodeWrongType},
	{"an octal number", with("seconds: 10", "seconds: 0o17"), 14, CodeWrongType},
	{"no end of time", with("seconds: 10", "seconds: 0"), 14, CodeOutOfBounds},
	{"a day", with("seconds: 10", "seconds: 86400"), 14, CodeOutOfBounds},
	{"a number beyond all", with("seconds: 10", "seconds: 99999999999999"), 14, CodeOutOfBounds},
	{"retries without end", whole + "    retries: 100\n", 15, CodeOutOfBounds},
	{"an exit code of no program", whole + "    expected_exit_codes: [256]\n", 15, CodeOutOfBounds},
	{"an output without end", whole + "    capture_stdout: 1000000000\n", 15, CodeOutOfBounds},
	{"an environment that loads code", whole + "    env_passthrough: [LANG, LD_PRELOAD]\n", 15, CodeEnvRefused},
	{"an environment that holds a secret", whole + "    env_passthrough: [HOSTLER_TOKEN]\n", 15, CodeEnvRefused},
	{"an empty fixed argument", with("[status]", "['']"), 12, CodeBadArg},
	{"a fixed argument with a NUL", with("[status]", `["a\0b"]`), 12, CodeBadArg},
	{"an argument of no type", withArg("{name: a, type: path}"), 15, CodeBadArg},
	{"an argument with a flag of two words", withArg("{name: a, type: boolean, flag: '-a -b'}"), 15, CodeBadArg},
	{"an argument that may be an option", withArg("{name: a, type: string, pattern: '[a-z-]+'}"), 15, CodeMayBeOption},
	{"an argument that may be anything", withArg("{name: a, type: string, pattern: '.+'}"), 15, CodeMayBeOption},
	{"an argument that may be an option in one of two ways", withArg("{name: a, type: string, pattern: 'a|-x'}"), 15, CodeMayBeOption},
	{"an argument that may be an option after nothing", withArg("{name: a, type: list, max_items: 1, pattern: 'a*-'}"), 15, CodeMayBeOption},
	{"an argument that may be an option in any case", withArg("{name: a, type: string, pattern: '(?i)[^a-z]x'}"), 15, CodeMayBeOption},
	{"an argument that may be nothing", withArg("{name: a, type: string, pattern: 'a*'}"), 15, CodeMayBeOption},
	{"an argument without a pattern", withArg("{name: a, type: string}"), 15, CodeMayBeOption},
	{"a pattern that closes more than it opened", withArg("{name: a, type: string, pattern: 'a)|(?:-x'}"), 15, CodeBadArg},
	{"a number that may be negative", withArg("{name: a, type: integer, minimum: -1, maximum: 1}"), 15, CodeMayBeOption},
	{"a number without bounds", withArg("{name: a, type: integer}"), 15, CodeBadArg},
	{"a list without bounds", withArg("{name: a, type: list, pattern: 'a'}"), 15, CodeBadArg},
	{"two arguments of one name", withArg("{name: a, type: boolean, flag: -a}, {name: a, type: boolean, flag: -b}"), 15, CodeDuplicate},
	{"an argument that the step does not give", withArg("{name: gpus, type: list, pattern: 'a', max_items: 1, required: true}"), 5, CodeStepLacksArg},
	{"an argument that the step gives as another type", strings.Replace(withArg("{name: gpus, type: string, pattern: 'a'}"), "gpu.runtime.check", "gpu.scrub.health", 1), 5, CodeStepLacksArg},
	{"an anchor", with("match: {}", "match: &a {}"), 7, CodeNotPlain},
	{"an alias", "a: &x 1\nb: *x\n", 1, CodeNotPlain},
	{"a tag", with("[status]", "!!python/object [status]"), 12, CodeNotPlain},
	{"two documents", whole + "---\n" + whole, 15, CodeNotPlain},
	{"what nests without end", "hardware_profiles: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), 1, CodeTooDeep},
	{"no YAML", "hardware_profiles: [\n", 1, CodeNotYAML},
	{"no YAML further down", with("user: root", "user: root: x"), 13, CodeNotYAML},
	{"a list of documents", "- a\n", 1, CodeWrongType},
	{"nothing", "", 1, CodeMissingKey},
	{"comments alone", "# nothing\n", 1, CodeMissingKey},
	{"another character set", "hardware_profiles: \"\xff\xfe\"\n", 1, CodeNotYAML},
	{"too much", whole + "# " + strings.Repeat("x", MaxSize), 0, CodeTooLarge},
}

func TestOneFaultIsRefusedWithItsLineAndCode(t *testing.T) {
	if _, problems := Parse(File{"set.yaml", []byte(whole)}); problems != nil {
		t.Fatal(problems)
	}
	for _, c := range refusals {
		set, problems := Parse(File{"set.yaml", []byte(c.text)})
		// What was misspelt is missing elsewhere: that may be said, too.
		follows := func(p Problem) bool { return p.Code == CodeUnusedProfile || p.Code == CodeMissingKey }
		rest := slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool {
			return p.Code == c.code && p.Line == c.line && p.File == "set.yaml"
		})
		if set != nil || len(rest) != len(problems)-1 || slices.ContainsFunc(rest, func(p Problem) bool { return !follows(p) }) {
			t.Errorf("%s: got %v, want set.yaml:%d: %s", c.name, []Problem(problems), c.line, c.code)
		}
	}
}

func TestEveryProblemIsSaidAndNotTheFirstAlone(t *testing.T) {
	text := strings.NewReplacer("gpu.vendor", "gpu.vender", "/usr/bin/tool", "/bin/sh", "seconds: 10", "seconds: 0", "gpu.runtime.check", "gpu.check").Replace(whole)
	_, problems := Parse(File{"set.yaml", []byte(text)})
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%d %s", p.Line, p.Code))
	}
	want := []string{"3 unknown_match_key", "5 unknown_step", "11 runs_other_programs", "14 out_of_bounds"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !strings.HasPrefix(problems[0].String(), `set.yaml:3: unknown_match_key: "gpu.vender" is no fact`) {
		t.Errorf("%s", problems[0])
	}
}

func TestAProblemOfTwoFilesNamesTheRightOne(t *testing.T) {
	_, problems := Parse(
		File{"a.yaml", []byte("hardware_profiles:\n  - {name: a, match: {gpu.vendor: amd}, overrides: {}}\n")},
		File{"b.yaml", []byte("\n\nhardware_profiles:\n  - {name: b, match: {gpu.vendor: amd}, overrides: {}}\n  - {name: c, match: {}, overrides: {}}\n")},
	)
	if len(problems) != 1 || problems[0].File != "b.yaml" || problems[0].Line != 4 || problems[0].Code != CodeUnreachable {
		t.Errorf("%v", []Problem(problems))
	}
}

func TestTheFallbackCountsLastWhicheverFileItIsIn(t *testing.T) {
	set, problems := Parse(
		File{"a.yaml", []byte("hardware_profiles:\n  - {name: all, match: {}, overrides: {}}\n  - {name: amd, match: {gpu.vendor: amd}, overrides: {}}\n")},
		File{"b.yaml", []byte("hardware_profiles:\n  - {name: intel, match: {gpu.vendor: intel}, overrides: {}}\n")},
	)
	if problems != nil {
		t.Fatal(problems)
	}
	for vendor, want := range map[string]string{"amd": "amd", "intel": "intel", "nvidia": "all"} {
		if got := set.Rule(map[string]string{"gpu.vendor": vendor}).Name; got != want {
			t.Errorf("%s: rule %s wins, want %s", vendor, got, want)
		}
	}
}

// What the messages quote comes from a file that somebody sent.
func TestAProblemHoldsNoControlCharacter(t *testing.T) {
	_, problems := Parse(File{"set.yaml", []byte(with("gpu.vendor", `"gpu\e[2J\n.vendor"`))})
	if len(problems) != 1 || strings.ContainsAny(problems[0].String(), "\x1b\n") {
		t.Errorf("%q", problems)
	}
}

func TestJSONFromOutsideIsJudgedLikeAFile(t *testing.T) {
	good, problems := Parse(File{"set.yaml", []byte(whole)})
	if problems != nil {
		t.Fatal(problems)
	}
	raw, err := good.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, old, new string
		code           taskcatalog.Code
		line           int
	}{
		{"a shell", "/usr/bin/tool", "/bin/sh", CodeRunsPrograms, 10},
		{"an unknown step", "gpu.runtime.check", "gpu.check", CodeUnknownStep, 2},
		{"a place that is none", "set.yaml:10", "/etc/shadow:1", CodeBadName, 0},
		{"an unknown key", `"command":`, `"shell":1,"command":`, taskcatalog.CodeMalformed, 0},
		{"a rule without a match", `"match":{"gpu.vendor":["nvidia"]},`, "", CodeMissingKey, 2},
		{"more behind it", "]}", "]}{}", taskcatalog.CodeMalformed, 0},
	} {
		text := string(raw)
		i := strings.LastIndex(text, c.old)
		if i < 0 {
			t.Fatalf("%s: no %q in %s", c.name, c.old, text)
		}
		set, problems := Decode([]byte(text[:i] + c.new + text[i+len(c.old):]))
		if set != nil || !slices.ContainsFunc(problems, func(p Problem) bool { return p.Code == c.code && p.Line == c.line }) {
			t.Errorf("%s: %v, want %s at line %d", c.name, []Problem(problems), c.code, c.line)
		}
	}
	if _, problems := Decode([]byte(strings.Repeat(" ", MaxSize+1))); len(problems) != 1 || problems[0].Code != CodeTooLarge {
		t.Errorf("%v", problems)
	}
}

// The schema serves editors: what it refuses, Parse must refuse.
func TestTheSchemaRefusesNothingThatParseTakes(t *testing.T) {
	schema := compiledSchema(t)
	for _, c := range refusals {
		var doc any
		if yaml.Unmarshal([]byte(c.text), &doc) != nil {
			continue
		}
		if _, problems := Parse(File{"set.yaml", []byte(c.text)}); schema.Validate(doc) != nil && problems == nil {
			t.Errorf("%s: the schema alone refuses it", c.name)
		}
	}
}

func TestAFolderIsReadInTheOrderOfNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"20-b.yaml", "10-a.yml", "notes.txt", ".hidden.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Read(dir)
	if err != nil || len(files) != 2 || string(files[0].Text) != "10-a.yml" || string(files[1].Text) != "20-b.yaml" {
		t.Errorf("%v, %v", files, err)
	}
	for _, name := range []string{filepath.Join(dir, "gone"), t.TempDir()} {
		if _, err := Read(name); taskcatalog.CodeOf(err, "") != CodeUnreadable {
			t.Errorf("%s: %v", name, err)
		}
	}
	large := filepath.Join(dir, "large.yaml")
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, 1<<30)); err != nil {
		t.Fatal(err)
	}
	if files, err := Read(large); err != nil || len(files[0].Text) != MaxSize+1 {
		t.Errorf("a file of a GiB: %v", err)
	}
}

// A set that is as large as may be, with as much to compare as may be, is judged
// in a moment: it comes from outside.
func TestTheLargestSetIsJudged(t *testing.T) {
	var b strings.Builder
	b.WriteString("hardware_profiles:\n")
	for i := range maxRules - 1 {
		fmt.Fprintf(&b, "  - name: r%d\n    overrides: {}\n    match:\n      gpu.driver: [d%d", i, i)
		for v := range 20 {
			fmt.Fprintf(&b, ",a%d", v)
		}
		b.WriteString("]\n      gpu.architecture: [x")
		for v := range 20 {
			fmt.Fprintf(&b, ",b%d", v)
		}
		b.WriteString("]\n")
	}
	b.WriteString("  - {name: all, match: {}, overrides: {}}\n")
	if _, problems := Parse(File{"set.yaml", []byte(b.String())}); problems != nil {
		t.Error(problems)
	}
}

// A set is read on machines of people whose repository somebody else wrote to.
func TestADirectoryOfProfilesLeadsToNothingOutsideIt(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("password: hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(at string) error{
		"a link out":  func(at string) error { return os.Symlink(secret, at) },
		"a pipe":      func(at string) error { return syscall.Mkfifo(at, 0o600) },
		"a directory": func(at string) error { return os.Symlink(".", at) },
	} {
		dir := t.TempDir()
		if err := plant(filepath.Join(dir, "a.yaml")); err != nil {
			t.Fatal(err)
		}
		files, err := Read(dir)
		if taskcatalog.CodeOf(err, "") != CodeUnreadable {
			t.Errorf("%s: %v, %v", name, files, err)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "real.yaml"), []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real.yaml", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if files, err := Read(dir); err != nil || len(files) != 2 {
		t.Errorf("a link within the directory: %d files, %v", len(files), err)
	}
}
