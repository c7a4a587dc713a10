package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Why an environment is not made.
const (
	CodePathTaken     taskcatalog.Code = "path_taken" // something that this step did not make is there
	CodePathInsecure  taskcatalog.Code = "path_insecure"
	CodePythonMissing taskcatalog.Code = "python_missing"
	CodePipFailed     taskcatalog.Code = "pip_failed"
)

const (
	pythonUnit    = "hostler-python-env.service"
	pythonLog     = "python-env.log" // below the agent's state directory
	pythonWork    = "python-env"     // as well
	pythonProgram = "/usr/bin/python3"
	// envMark is the file of an environment that says what is in it.
	envMark = ".hostler-environment"
)

var pythonEnv = []string{
	"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/nonexistent",
	"PIP_CONFIG_FILE=/dev/null", "PYTHONNOUSERSITE=1",
}

// pythonMark is the content of envMark. Only a whole environment has Packages.
type pythonMark struct {
	Lock        string `json:"lock"`        // digest of the lock file
	Interpreter string `json:"interpreter"` // python3.11
	Packages    string `json:"packages"`    // digest of what the environment has
}

// pythonStep is a step of the kind with what it reads.
type pythonStep struct {
	*Step
	m           *machine.Machine
	dir         string // the environment
	entries     []lockEntry
	lock        string // the digest of the lock file
	interpreter string
}

func newPythonStep(s *Step) (*pythonStep, error) {
	p := &pythonStep{Step: s, m: s.Host.Machine, dir: path.Join(s.Args.Text("root"), s.Args.Text("name"))}
	there, err := p.m.Has(pythonProgram)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, taskcatalog.Errorf(CodePythonMissing, "this machine has no %s (package.install)", pythonProgram)
	}
	raw, err := p.m.ReadStrict(s.Args.Text("lock"), maxLock)
	if err != nil {
		return nil, taskcatalog.Errorf(CodeLockRefused, "cannot read the lock file: %v", err)
	}
	sum := sha256.Sum256(raw)
	p.lock = "sha256:" + hex.EncodeToString(sum[:])
	if p.entries, err = parseLock(raw); err != nil {
		return nil, err
	}
	target, err := p.m.Readlink(pythonProgram)
	if errors.Is(err, unix.EINVAL) { // no link
		target, err = pythonProgram, nil
	}
	p.interpreter = path.Base(target)
	return p, err
}

// lookPythonEnv proves an environment by its mark, which is written when everything else is on the disk,
// and by the files of its packages, each with the hash in its package's list.
func lookPythonEnv(ctx context.Context, s *Step) (Proof, bool, error) {
	p, err := newPythonStep(s)
	if err != nil {
		return Proof{}, false, err
	}
	switch err := p.judge(p.dir); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP),
		taskcatalog.CodeOf(err, "") == CodePathInsecure:
		return Proof{}, false, nil // what others could have written proves nothing
	case err != nil:
		return Proof{}, false, err
	}
	mark, _, err := p.mark()
	if err != nil || mark.Packages == "" || mark.Lock != p.lock || mark.Interpreter != p.interpreter {
		return Proof{}, false, err
	}
	all, err := p.installed(ctx)
	if taskcatalog.CodeOf(err, "") == CodePipFailed {
		return Proof{}, false, nil // it has changed
	}
	if err != nil || all.digest != mark.Packages {
		return Proof{}, false, err
	}
	return p.proof(len(all.dists)), true, nil
}

func (p *pythonStep) proof(packages int) Proof {
	return Proof{Output: p.dir, Digest: p.lock, Message: fmt.Sprintf("packages: %d, by %s", packages, p.interpreter)}
}

// createPythonEnv makes the environment anew. It brings the wheels itself, so that no request leaves
// the plan's list of sources; venv and pip run without a network. No code of a package runs.
func createPythonEnv(ctx context.Context, s *Step) (proof Proof, err error) {
	p, err := newPythonStep(s)
	if err != nil {
		return proof, err
	}
	// An earlier agent may have begun. What its program makes is not waited for.
	work := path.Join(s.Host.StateDir, pythonWork)
	if err := errors.Join(s.Host.Systemd.Stop(ctx, pythonUnit), p.clear(ctx, work)); err != nil {
		return proof, err
	}
	defer func() { err = errors.Join(err, p.clear(context.WithoutCancel(ctx), work)) }()
	if err := errors.Join(p.m.MakeDir(work, 0o700, 0, 0), p.m.MakeDir(work+"/wheels", 0o700, 0, 0)); err != nil {
		return proof, err
	}
	if err := p.bring(ctx, work+"/wheels"); err != nil {
		return proof, err
	}
	var lock strings.Builder
	for _, e := range p.entries {
		lock.WriteString(e.line())
	}
	if err := p.m.WriteFile(work+"/lock", []byte(lock.String()), 0o600, 0, 0); err != nil {
		return proof, err
	}
	defer func() {
		if isFull(err) { // what is half made keeps the disk full
			err = errors.Join(err, p.empty(context.WithoutCancel(ctx)))
		}
	}()
	if err := p.begin(ctx); err != nil {
		return proof, err
	}
	s.Progress(70, "the environment is made")
	if _, err := p.run(ctx, "python_venv", map[string]any{"environment": p.dir}); err != nil {
		return proof, err
	}
	s.Progress(75, "packages are installed")
	if _, err := p.run(ctx, "pip_install", map[string]any{
		"environment": p.dir, "verb": "install", "no_index": true, "wheels": work + "/wheels", "hashes": true, "alone": true,
		"binary": ":all:", "no_cache": true, "progress": "off", "lock": work + "/lock",
	}); err != nil {
		return proof, err
	}
	return p.end(ctx)
}

// bring downloads the wheel of each package. A package with a condition may have none: pip takes it
// only if the condition holds, and then misses it.
func (p *pythonStep) bring(ctx context.Context, into string) error {
	said, err := p.run(ctx, "python_tags", nil)
	if err != nil {
		return err
	}
	index, err := newPythonIndex(p.Step, strings.Fields(said))
	if err != nil {
		return err
	}
	brought := map[string]bool{} // two entries with a condition may have one wheel
	for i, e := range p.entries {
		p.Progress(5+60*i/len(p.entries), "brings "+e.name)
		w, err := index.find(ctx, e)
		if e.marker != "" && taskcatalog.CodeOf(err, "") == CodeWheelNotFound {
			continue
		}
		if err == nil && !brought[w.name] {
			brought[w.name] = true
			_, err = index.fetch(ctx, w, e, filepath.Join(p.m.Dir(), into, w.name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin makes the directory of the environment empty but for its mark. What this step did not make
// stays, and is a fault.
func (p *pythonStep) begin(ctx context.Context) error {
	if err := p.parents(); err != nil {
		return err
	}
	st, err := p.m.Lstat(p.dir)
	marked := false
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err = p.judge(p.dir); err == nil {
			_, marked, err = p.mark()
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := p.make(p.dir); err != nil {
			return err
		}
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return taskcatalog.Errorf(CodePathTaken, "%s is no directory (remove it)", p.dir)
	case !marked:
		names, err := p.m.Names(p.dir)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return taskcatalog.Errorf(CodePathTaken, "%s has content that this step did not make (remove it)", p.dir)
		}
	}
	if err := p.setMark(pythonMark{Lock: p.lock, Interpreter: p.interpreter}); err != nil {
		return err
	}
	return p.empty(ctx)
}

// empty removes all of the environment but its mark.
func (p *pythonStep) empty(ctx context.Context) error {
	other := func(e *machine.Entry) bool { return e.Depth() > 1 || e.Name != envMark }
	var fault error
	_, err := p.m.Empty(ctx, p.dir, machine.Tree{Remove: other, Fault: func(name string, err error) {
		fault = fmt.Errorf("cannot remove %s: %w", taskcatalog.Clean(name, 200), err)
	}})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, fault)
}

// parents makes the directories above the environment. Each must be root's alone: whoever may write
// one of them could lead the programs elsewhere.
func (p *pythonStep) parents() error {
	at := ""
	for part := range strings.SplitSeq(strings.TrimPrefix(path.Dir(p.dir), "/"), "/") {
		at += "/" + part
		err := p.judge(at)
		if errors.Is(err, fs.ErrNotExist) {
			if err = p.make(at); err == nil {
				err = p.judge(at)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// make makes a directory for everybody to read. A kill leaves none with another mode.
func (p *pythonStep) make(dir string) error {
	made, err := p.m.MakeBelow(dir)
	if err == nil {
		made.Close()
	}
	return err
}

// judge refuses a directory that is not root's alone.
func (p *pythonStep) judge(dir string) error {
	st, err := p.m.Lstat(dir)
	switch {
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return taskcatalog.Errorf(CodePathInsecure, "%s is a link or no directory", dir)
	case st.Uid != 0 || st.Mode&0o022 != 0:
		return taskcatalog.Errorf(CodePathInsecure,
			"%s belongs to uid %d with mode %04o, so others could replace what is below (chown root, chmod go-w)", dir, st.Uid, st.Mode&0o7777)
	}
	return nil
}

// end proves what pip has installed, and writes the mark when it is on the disk.
func (p *pythonStep) end(ctx context.Context) (Proof, error) {
	all, err := p.installed(ctx)
	if err != nil {
		return Proof{}, err
	}
	for _, e := range p.entries {
		has := func(dist string) bool {
			name, _, _ := strings.Cut(strings.TrimSuffix(dist, ".dist-info"), "-")
			return normalName(name) == e.normal()
		}
		if e.marker == "" && !slices.ContainsFunc(all.dists, has) {
			return Proof{}, taskcatalog.Errorf(CodePipFailed, "pip ended well, and the environment does not have %s", e.name)
		}
	}
	d, err := p.m.OpenDirStrict(p.dir)
	if err != nil {
		return Proof{}, err
	}
	defer func() { _ = d.Close() }()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return Proof{}, fmt.Errorf("cannot write %s to the disk: %w", p.dir, err)
	}
	if err := p.setMark(pythonMark{Lock: p.lock, Interpreter: p.interpreter, Packages: all.digest}); err != nil {
		return Proof{}, err
	}
	return p.proof(len(all.dists)), nil
}

// mark reads the environment's mark, and reports whether there is one.
func (p *pythonStep) mark() (mark pythonMark, marked bool, err error) {
	raw, err := p.m.ReadStrict(path.Join(p.dir, envMark), 4096)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, machine.ErrNotRegular):
		return mark, false, nil
	case err != nil:
		return mark, false, err
	}
	if err := json.Unmarshal(raw, &mark); err != nil {
		return pythonMark{}, true, nil // an environment, and nothing is known of it
	}
	return mark, true, nil
}

func (p *pythonStep) setMark(mark pythonMark) error {
	raw, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	return p.m.WriteFile(path.Join(p.dir, envMark), raw, 0o644, 0, 0)
}

// clear removes a directory of the agent's own.
func (p *pythonStep) clear(ctx context.Context, dir string) error {
	var fault error
	_, err := p.m.RemoveAll(ctx, dir, machine.Tree{Remove: machine.AllEntries, Fault: func(_ string, err error) { fault = err }})
	return errors.Join(err, fault)
}

// run runs a program of profiles.PythonTools as a service without a network, and returns what it
// printed.
func (p *pythonStep) run(ctx context.Context, id string, args map[string]any) (string, error) {
	profile := profiles.PythonTools()[id]
	if err := p.Host.Commands.Check(profile); err != nil {
		return "", err
	}
	argv, err := profile.Argv(args)
	if err != nil {
		return "", err
	}
	output := path.Join(p.Host.StateDir, pythonLog)
	exit, err := p.Host.Systemd.Finish(ctx, host.Service{
		Unit: pythonUnit, Argv: argv, Env: pythonEnv, Output: output,
		Timeout: time.Duration(profile.TimeoutSeconds) * time.Second, Offline: true,
	})
	if err != nil {
		return "", err
	}
	said, err := tail(p.m, output, int64(profile.CaptureStdout))
	switch {
	case err != nil:
		return "", err
	case exit == 0:
		return said, nil
	case noSpace(said), hasNoRoom(p.m, p.dir, p.Host.StateDir):
		return "", taskcatalog.Errorf(taskcatalog.CodeDiskFull, "%s ended with %d for want of room: %s (free space on the node, and retry)", id, exit, excerpt(said))
	case strings.Contains(said, "No module named"):
		return "", taskcatalog.Errorf(CodePythonMissing, "%s cannot do that: %s (install python3-pip)", pythonProgram, excerpt(said))
	}
	return "", taskcatalog.Errorf(CodePipFailed, "%s ended with %d: %s (log: %s)", id, exit, excerpt(said), pythonLog)
}
