package command

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// Each attack changes a single thing on the way to an allowed program.
func TestAProgramThatIsNotRootsAloneDoesNotRun(t *testing.T) {
	script := func(line string) func(string) error {
		return func(d string) error { return os.WriteFile(d+"/usr/bin/tool", []byte(line+"\n"), 0o755) }
	}
	link := func(to string) func(string) error {
		return func(d string) error {
			_ = os.Rename(d+"/usr/bin/tool", d+"/usr/bin/real")
			return os.Symlink(to, d+"/usr/bin/tool")
		}
	}
	both := func(fs ...func(string) error) func(string) error {
		return func(d string) error {
			for _, f := range fs {
				if err := f(d); err != nil {
					return err
				}
			}
			return nil
		}
	}
	mode := func(name string, mode os.FileMode) func(string) error {
		return func(d string) error { return os.Chmod(d+name, mode) }
	}
	owner := func(name string) func(string) error {
		return func(d string) error { return os.Lchown(d+name, 1000, 1000) }
	}
	for _, c := range []struct {
		name   string
		attack func(dir string) error
		code   taskcatalog.Code
	}{
		{"nothing", func(string) error { return nil }, ""},
		{"the program is another's", owner("/usr/bin/tool"), CodeExecutableInsecure},
		{"all may write the program", mode("/usr/bin/tool", 0o757), CodeExecutableInsecure},
		{"a group may write the program", mode("/usr/bin/tool", 0o775), CodeExecutableInsecure},
		{"its folder is another's", owner("/usr/bin"), CodeExecutableInsecure},
		{"all may write its folder", mode("/usr/bin", 0o777), CodeExecutableInsecure},
		{"all may write its folder, sticky", mode("/usr/bin", 0o777|os.ModeSticky), CodeExecutableInsecure},
		{"a group may write its folder", mode("/usr/bin", 0o775), CodeExecutableInsecure},
		{"a folder further up is another's", owner("/usr"), CodeExecutableInsecure},
		{"all may write a folder further up", mode("/usr", 0o757), CodeExecutableInsecure},
		{"the root directory is another's", owner("/"), CodeExecutableInsecure},
		{"all may write the root directory", mode("/", 0o777), CodeExecutableInsecure},
		{"a link of root's leads to root's", link("real"), ""},
		{"a link leads up and down again", link("../../usr/./bin/real"), ""},
		{"an absolute link stays in the machine", link("/usr/bin/real"), ""},
		{"a link leads far above the machine", link("../../../../../../usr/bin/real"), ""},
		{"the link is another's", both(link("real"), owner("/usr/bin/tool")), CodeExecutableInsecure},
		{"the link leads to another's program", both(link("real"), owner("/usr/bin/real")), CodeExecutableInsecure},
		{"the link leads through another's folder", both(link("/opt/real"), func(d string) error { return os.Rename(d+"/usr/bin/real", d+"/opt/real") }, owner("/opt")), CodeExecutableInsecure},
		{"the link leads to a shell", both(link("bash"), func(d string) error { return os.Rename(d+"/usr/bin/real", d+"/usr/bin/bash") }), CodeExecutableRefused},
		{"the link leads to a link called python3", both(link("python3"), func(d string) error { return os.Symlink("real", d+"/usr/bin/python3") }), CodeExecutableRefused},
		{"the link leads to systemctl", both(link("systemctl"), func(d string) error { return os.Rename(d+"/usr/bin/real", d+"/usr/bin/systemctl") }), CodeExecutableRefused},
		{"the link leads to what writes", both(link("tee"), func(d string) error { return os.Rename(d+"/usr/bin/real", d+"/usr/bin/tee") }), CodeExecutableRefused},
		{"the link leads to an interpreter by another name", both(link("perl5.36-x86_64-linux-gnu"), func(d string) error {
			return os.Rename(d+"/usr/bin/real", d+"/usr/bin/perl5.36-x86_64-linux-gnu")
		}), CodeExecutableRefused},
		{"the link leads in a circle", link("tool"), CodeExecutableRefused},
		{"the link leads nowhere", link("gone"), CodeExecutableMissing},
		{"the link leads to a folder", link(".."), CodeExecutableRefused},
		{"a folder is a link of another's", both(func(d string) error { return os.Rename(d+"/usr", d+"/sys") }, func(d string) error { return os.Symlink("sys", d+"/usr") }, owner("/usr")), CodeExecutableInsecure},
		{"a folder is a file", both(func(d string) error { return os.RemoveAll(d + "/usr/bin") }, func(d string) error { return os.WriteFile(d+"/usr/bin", nil, 0o755) }), CodeExecutableMissing},
		{"the program is gone", func(d string) error { return os.Remove(d + "/usr/bin/tool") }, CodeExecutableMissing},
		{"the program is a folder", both(func(d string) error { return os.Remove(d + "/usr/bin/tool") }, func(d string) error { return os.Mkdir(d+"/usr/bin/tool", 0o755) }), CodeExecutableRefused},
		{"the program is a FIFO", both(func(d string) error { return os.Remove(d + "/usr/bin/tool") }, func(d string) error { return syscall.Mkfifo(d+"/usr/bin/tool", 0o755) }), CodeExecutableRefused},
		{"the program is a device", both(func(d string) error { return os.Remove(d + "/usr/bin/tool") }, func(d string) error { return syscall.Mknod(d+"/usr/bin/tool", syscall.S_IFCHR|0o755, 0x103) }), CodeExecutableRefused},
		{"nobody may run it", mode("/usr/bin/tool", 0o644), CodeExecutableRefused},
		{"it is set-uid", mode("/usr/bin/tool", 0o755|os.ModeSetuid), CodeExecutableRefused},
		{"it is set-gid", mode("/usr/bin/tool", 0o755|os.ModeSetgid), CodeExecutableRefused},
		{"it is a text", script("echo hello"), CodeExecutableRefused},
		{"it is empty", func(d string) error { return os.Truncate(d+"/usr/bin/tool", 0) }, CodeExecutableRefused},
		{"it is a script for a shell", script("#!/bin/sh"), CodeExecutableRefused},
		{"it is a script for a shell by env", both(script("#!/usr/bin/env bash"), copyTo("/usr/bin/env"), copyTo("/usr/bin/bash")), CodeExecutableRefused},
		{"it is a script for a shell by another name", both(script("#!/usr/bin/bash-static"), copyTo("/usr/bin/bash-static")), CodeExecutableRefused},
		{"it is a script for a shell by setsid", both(script("#!/usr/bin/setsid /bin/sh"), copyTo("/usr/bin/setsid")), CodeExecutableRefused},
		{"it is a script for a shell by setsid and PATH", both(script("#!/usr/bin/setsid dash"), copyTo("/usr/bin/setsid")), CodeExecutableRefused},
		{"it is a script for python with an option", both(script("#!/usr/bin/python3 -Es"), copyTo("/usr/bin/python3")), ""},
		{"it is a script for env with more", both(script("#!/usr/bin/env -S python3 -c"), copyTo("/usr/bin/env"), copyTo("/usr/bin/python3")), CodeExecutableRefused},
		{"it is a script for an interpreter in a relative path", script("#!python3"), CodeExecutableRefused},
		{"it is a script for python", both(script("#!/usr/bin/python3"), copyTo("/usr/bin/python3")), ""},
		{"it is a script for python by env", both(script("#!/usr/bin/env python3"), copyTo("/usr/bin/env"), copyTo("/usr/bin/python3")), ""},
		{"its interpreter is gone", script("#!/usr/bin/python3"), CodeExecutableMissing},
		{"what env would find is gone", both(script("#!/usr/bin/env python3"), copyTo("/usr/bin/env")), CodeExecutableMissing},
		{"its interpreter is another's", both(script("#!/usr/bin/python3"), copyTo("/usr/bin/python3"), owner("/usr/bin/python3")), CodeExecutableInsecure},
		{"what env would find is another's", both(script("#!/usr/bin/env python3"), copyTo("/usr/bin/env"), copyTo("/usr/bin/python3"), owner("/usr/bin/python3")), CodeExecutableInsecure},
		{"its interpreter is a script", both(script("#!/usr/bin/python3"), func(d string) error { return os.WriteFile(d+"/usr/bin/python3", []byte("#!/bin/sh\n"), 0o755) }), CodeExecutableRefused},
	} {
		r, dir := boxWith(t, []byte("\x7fELF…"))
		ok(t, c.attack(dir))
		e, err := find(r.Root, "/usr/bin/tool", false)
		if taskcatalog.CodeOf(err, "") != c.code {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
		if err == nil {
			ok(t, e.Close())
			continue
		}
		// Run returns the same code, and runs nothing.
		if res, err := r.Run(t.Context(), tool("args"), nil); taskcatalog.CodeOf(err, "") != c.code || res.Stdout.Total != 0 {
			t.Errorf("%s: run: %q, %v", c.name, res.Stdout.Kept, err)
		}
		if got := len(openBelow(dir)); got != 0 {
			t.Errorf("%s: %d descriptors were left open: %v", c.name, got, openBelow(dir))
		}
	}
}

// copyTo puts a program owned by root under another name.
func copyTo(name string) func(string) error {
	return func(d string) error { return os.WriteFile(d+name, []byte("\x7fELF…"), 0o755) }
}

func openBelow(dir string) (left []string) {
	names, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, dir+"/") {
			left = append(left, to)
		}
	}
	return left
}
