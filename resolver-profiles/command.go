package profiles

import (
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

var (
	plainPath = lazyregexp.New(`^/[A-Za-z0-9._+/-]+$`)
	account   = lazyregexp.New(`^[a-z_][a-z0-9_-]{0,30}$`)
)

// noProgramDirs are directories without programs of the system: directories that tenants write, and
// the kernel's views of processes.
var noProgramDirs = []string{"/dev", "/home", "/media", "/mnt", "/proc", "/root", "/run", "/srv", "/sys", "/tmp", "/var/tmp"}

// Bounds of a command profile.
const (
	maxBaseArgs = 64
	maxArgs     = 16
	maxTimeout  = 3600
	maxRetries  = 5
)

func partOf(table string, i int) string { return table + "/" + strconv.Itoa(i) }

// command finds the faults of a command profile.
func (c *checker) command(part string, p *CommandProfile) {
	if !profileID.MatchString(p.ID) {
		c.refuse(CodeBadName, part+"/id", "%s is no id of a command profile (a-z, 0-9, '_', '-', 64 at most)", quote(p.ID))
	}
	c.executable(part+"/command", p.Command)
	if path.Base(p.Command) == systemctl && (len(p.ArgSchema) > 0 || !queriesUnits(p.BaseArgs)) {
		c.refuse(CodeRunsPrograms, part+"/command",
			"of systemctl only the fixed arguments is-active or is-failed, and units by their full names, are taken")
	}
	if len(p.BaseArgs) > maxBaseArgs || len(p.ArgSchema) > maxArgs {
		c.refuse(CodeTooMany, part, "there are more than %d base_args or %d fields of arg_schema", maxBaseArgs, maxArgs)
	}
	for i, a := range p.BaseArgs {
		at := partOf(part+"/base_args", i)
		switch {
		case a == "" || len(a) > maxArgBytes || strings.ContainsFunc(a, unicode.IsControl):
			c.refuse(CodeBadArg, at, "a fixed argument has 1 to %d bytes and no control character", maxArgBytes)
		case NamesProgram(a):
			c.refuse(CodeRunsPrograms, at, "the argument %s names a shell, or a program that runs or changes others", quote(a))
		}
	}
	seen := map[string]bool{}
	for i := range p.ArgSchema {
		a, at := &p.ArgSchema[i], partOf(part+"/arg_schema", i)
		if code, what := a.check(); code != "" {
			c.refuse(code, at, "%s", what)
		}
		if seen[a.Name] {
			c.refuse(CodeDuplicate, at, "there are two arguments %s", quote(a.Name))
		}
		seen[a.Name] = true
	}
	passed := map[string]bool{}
	for i, name := range p.EnvPassthrough {
		at := partOf(part+"/env_passthrough", i)
		if !mayPass(name) {
			c.refuse(CodeEnvRefused, at, "%s is no variable that a program may inherit (%s, LC_*)", quote(name),
				strings.Join(passable, ", "))
		}
		if passed[name] {
			c.refuse(CodeDuplicateKey, at, "%s is there twice", quote(name))
		}
		passed[name] = true
	}
	if !account.MatchString(p.User) {
		c.refuse(CodeBadName, part+"/user", "%s is no account (root, or a service account by name)", quote(p.User))
	}
	c.bounds(part, p)
}

func (c *checker) bounds(part string, p *CommandProfile) {
	for _, b := range []struct {
		key              string
		value, from, top int
	}{
		{"timeout_seconds", p.TimeoutSeconds, 1, c.maxTimeout()},
		{"retries", p.Retries, 0, maxRetries},
		{"capture_stdout", int(p.CaptureStdout), 0, int(MaxCapture)},
		{"capture_stderr", int(p.CaptureStderr), 0, int(MaxCapture)},
		{"expected_exit_codes", len(p.ExpectedExitCodes), 0, 16},
	} {
		if b.value < b.from || b.value > b.top {
			c.refuse(CodeOutOfBounds, part+"/"+b.key, "%s is between %d and %d", b.key, b.from, b.top)
		}
	}
	seen := map[int]bool{}
	for i, code := range p.ExpectedExitCodes {
		if code < 0 || code > 255 || seen[code] {
			c.refuse(CodeOutOfBounds, partOf(part+"/expected_exit_codes", i), "an exit code is between 0 and 255, each once")
		}
		seen[code] = true
	}
}

func (c *checker) executable(at, command string) {
	switch {
	case !path.IsAbs(command):
		c.refuse(CodeNotAbsolute, at, "the command %s is no absolute path", quote(command))
	case path.Clean(command) != command || !plainPath.MatchString(command) || len(command) > 255:
		c.refuse(CodePathRefused, at, "the command %s is no plain path (no '..', no doubled or last '/', no blank)", quote(command))
	case RunsOtherPrograms(command) && !c.own:
		c.refuse(CodeRunsPrograms, at, "the command %s runs or changes what its arguments name (name a program that does one thing)",
			quote(command))
	default:
		for _, dir := range noProgramDirs {
			if command == dir || strings.HasPrefix(command, dir+"/") {
				c.refuse(CodePathRefused, at, "the command %s is below %s, where no program of the system is", quote(command), dir)
			}
		}
	}
}
