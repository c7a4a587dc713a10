package steps_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

// The lists of files prove nothing by themselves: each file is held against them.
func TestAChangedFileOfAnEnvironmentIsFound(t *testing.T) {
	if !hosttest.System(t) {
		return
	}
	p := newPythonTest(t)
	raw := wheelOf(t, "ht_one", "1.0", "value = 1\n")
	p.put("ht-one", "ht_one-1.0-py3-none-any.whl", "/files/ht_one-1.0-py3-none-any.whl", raw)
	lock := "ht-one==1.0" + hashOf(raw)
	site := envDir + "/lib/" + interpreter(t) + "/site-packages/"
	module := site + "ht_one.py"
	hosttest.OK(t, os.WriteFile("/etc/ht_one.py", []byte("value = 1\n"), 0o644))
	if _, err := p.create(t, lock); err != nil || !p.done(t) {
		t.Fatal(err)
	}
	was := map[string]string{}
	for _, name := range []string{module, site + "ht_one-1.0.dist-info/METADATA", site + "ht_one-1.0.dist-info/RECORD"} {
		was[name] = hosttest.Read(t, "/", name)
	}
	for name, change := range map[string]func() error{
		"content":            func() error { return os.WriteFile(module, []byte("value = 2\n"), 0o644) },
		"length":             func() error { return os.WriteFile(module, []byte("value = 1\n\n"), 0o644) },
		"gone":               func() error { return os.Remove(module) },
		"a link":             func() error { return errors.Join(os.Remove(module), os.Symlink("/etc/ht_one.py", module)) },
		"a directory":        func() error { return errors.Join(os.Remove(module), os.Mkdir(module, 0o755)) },
		"another mount":      func() error { return unix.Mount("/etc/ht_one.py", module, "", unix.MS_BIND, "") },
		"a file of the dist": func() error { return os.WriteFile(site+"ht_one-1.0.dist-info/METADATA", nil, 0o644) },
		"no list":            func() error { return os.Remove(site + "ht_one-1.0.dist-info/RECORD") },
	} {
		hosttest.OK(t, change())
		if p.done(t) {
			t.Errorf("an environment with a changed file (%s) counts as done", name)
		}
		_ = unix.Unmount(module, 0)
		for file, content := range was {
			hosttest.OK(t, errors.Join(os.RemoveAll(file), os.WriteFile(file, []byte(content), 0o644)))
		}
		if !p.done(t) {
			t.Fatalf("after %s was made good, the environment is not done", name)
		}
	}
	hosttest.OK(t, os.Remove(module))
	if _, err := p.create(t, lock); err != nil || !p.done(t) || imports(t, "ht_one") != "1" {
		t.Errorf("made anew: %v", err)
	}
	// What Python compiles, and what a program keeps beside it, is no change.
	hosttest.Put(t, "/", site+"cache/data", "x")
	if !p.done(t) {
		t.Error("a new file is a change")
	}
}

// pip believes the list of a wheel. The step does not.
func TestAWheelWhoseListIsWrongMakesNoEnvironment(t *testing.T) {
	if !hosttest.System(t) {
		return
	}
	p := newPythonTest(t)
	raw := wheelThatLists(t, "ht_one", "1.0", "value = 1\n", "value = 2\n")
	p.put("ht-one", "ht_one-1.0-py3-none-any.whl", "/files/ht_one-1.0-py3-none-any.whl", raw)
	_, err := p.create(t, "ht-one==1.0"+hashOf(raw))
	if taskcatalog.CodeOf(err, "") != steps.CodePipFailed || !strings.Contains(err.Error(), "ht_one.py has another content") || p.done(t) {
		t.Errorf("%v", err)
	}
}

// A kill between two calls leaves no directory that only root can read: a directory gets its name when it
// has its mode.
func TestDirectoriesOfAnEnvironmentAppearWithTheirMode(t *testing.T) {
	if !hosttest.System(t) {
		return
	}
	p := newPythonTest(t)
	raw := wheelOf(t, "ht_one", "1.0", "value = 1\n")
	p.put("ht-one", "ht_one-1.0-py3-none-any.whl", "/files/ht_one-1.0-py3-none-any.whl", raw)
	hosttest.OK(t, os.RemoveAll("/opt/ht"))
	hosttest.OK(t, os.MkdirAll("/opt", 0o755))
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	hosttest.OK(t, err)
	defer func() { _ = unix.Close(watch) }()
	_, err = unix.InotifyAddWatch(watch, "/opt", unix.IN_CREATE|unix.IN_MOVED_TO)
	hosttest.OK(t, err)
	if _, err := p.create(t, "ht-one==1.0"+hashOf(raw)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	n, err := unix.Read(watch, buf)
	hosttest.OK(t, err)
	moved := false
	for buf = buf[:n]; len(buf) > 0; {
		event := (*unix.InotifyEvent)(unsafe.Pointer(&buf[0]))
		name := strings.TrimRight(string(buf[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+event.Len]), "\x00")
		buf = buf[unix.SizeofInotifyEvent+event.Len:]
		if name == "ht" {
			moved = event.Mask&unix.IN_MOVED_TO != 0
			if !moved {
				t.Error("the directory was there before it had its mode")
			}
		}
	}
	if !moved {
		t.Error("the directory did not appear")
	}
}
