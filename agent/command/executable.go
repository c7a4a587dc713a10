package command

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Why a program may not run on this machine.
const (
	CodeExecutableMissing  taskcatalog.Code = "executable_missing"
	CodeExecutableInsecure taskcatalog.Code = "executable_insecure" // not root's alone
	CodeExecutableRefused  taskcatalog.Code = "executable_refused"  // a shell, an interpreter, set-uid, not executable
)

// Executable is an allowed program, held open so that the program cannot be replaced.
type Executable struct {
	file   *os.File
	script bool
}

// Close closes the program's file.
func (e *Executable) Close() error { return e.file.Close() }

// find opens the program at an absolute path below a machine's root directory, if it may run. own is
// set for a profile compiled into the agent: the program's exact name is then allowed, alone or with
// a version behind it, even if the program runs others. Codes executable_missing, executable_insecure, executable_refused.
func find(root *os.File, name string, own bool) (*Executable, error) {
	f, err := walk(root, name, func(part string) bool {
		if own && isVersionOf(part, path.Base(name)) {
			return false
		}
		return profiles.RunsOtherPrograms(part) || !profiles.SameProgram(name, part)
	})
	if err != nil {
		return nil, err
	}
	interpreter, err := inspect(f, name)
	if err == nil && interpreter != nil {
		err = judgeInterpreter(root, name, interpreter)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &Executable{file: f, script: interpreter != nil}, nil
}

// isVersionOf reports whether a name is the program's own, or that of one of its versions: python3.11.
func isVersionOf(part, program string) bool {
	version, ok := strings.CutPrefix(part, program)
	return ok && strings.Trim(version, ".0123456789") == ""
}

func refused(name, format string, args ...any) error {
	return (&walker{name: name}).fail(CodeExecutableRefused, format, args...)
}

// inspect returns the kind of a file known to be root's: the interpreter and its argument for a
// script, nil for an ELF program.
func inspect(f *os.File, name string) ([]string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, refused(name, "%v", err)
	}
	switch {
	case st.Mode&0o111 == 0:
		return nil, refused(name, "its mode %04o does not make it executable", st.Mode&0o7777)
	case st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0:
		return nil, refused(name, "it is set-uid or set-gid, mode %04o", st.Mode&0o7777)
	}
	r, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return nil, refused(name, "%v", err)
	}
	defer func() { _ = r.Close() }()
	head := make([]byte, 256) // as much as the kernel reads
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, refused(name, "%v", err)
	}
	line, script := strings.CutPrefix(string(head[:n]), "#!")
	switch {
	case strings.HasPrefix(line, "\x7fELF") && !script:
		return nil, nil
	case !script:
		return nil, refused(name, "it is neither an ELF program nor a script with an interpreter")
	}
	line, _, whole := strings.Cut(line, "\n")
	interpreter := strings.Fields(line)
	if !whole || len(interpreter) == 0 || !path.IsAbs(interpreter[0]) {
		return nil, refused(name, "its first line names no interpreter by an absolute path")
	}
	return interpreter, nil
}

// judgeInterpreter requires the interpreter of a script to be an ELF program that is root's alone.
// It must not be a shell, nor be told to run a shell or a program that runs others:
// `#!/usr/bin/setsid /bin/sh`. env is resolved, because most scripts use it: env runs the first
// program of the name in the fixed PATH.
func judgeInterpreter(root *os.File, name string, interpreter []string) error {
	if slices.ContainsFunc(interpreter[1:], profiles.NamesProgram) {
		return refused(name, "its first line has %s run another program", interpreter[0])
	}
	if err := elf(root, name, interpreter[0]); err != nil || path.Base(interpreter[0]) != "env" {
		return err
	}
	if len(interpreter) != 2 || strings.ContainsAny(interpreter[1], "-=/") {
		return refused(name, "its first line asks env for more than one program by its name")
	}
	for dir := range strings.SplitSeq(searchPath, ":") {
		err := elf(root, name, path.Join(dir, interpreter[1]))
		if taskcatalog.CodeOf(err, "") != CodeExecutableMissing {
			return err
		}
	}
	return (&walker{name: name}).fail(CodeExecutableMissing, "its interpreter %s is not found in %s", interpreter[1], searchPath)
}

func elf(root *os.File, name, interpreter string) error {
	if profiles.IsShell(interpreter) {
		return refused(name, "it is a script for the shell %s", interpreter)
	}
	f, err := walk(root, interpreter, profiles.IsShell)
	if err != nil {
		return (&walker{name: name}).fail(taskcatalog.CodeOf(err, CodeExecutableRefused), "its interpreter: %v", err)
	}
	defer func() { _ = f.Close() }()
	inner, err := inspect(f, interpreter)
	if err == nil && inner != nil {
		err = refused(interpreter, "it is a script itself")
	}
	if err != nil {
		return refused(name, "its interpreter: %v", err)
	}
	return nil
}
