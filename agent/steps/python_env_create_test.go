package steps_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	indexHost = "pypi.example"
	envDir    = "/opt/ht/env"
	lockFile  = "/var/lib/ht/lock.txt"
)

// pythonIndex is a package index over TLS under every name: PEP 503, with the wheels on the same host.
type pythonIndex struct {
	mu    sync.Mutex
	files map[string][]byte // by host and path
	moved map[string]string // host and path → where the answer leads
	asked []string
}

func (x *pythonIndex) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := r.Host + r.URL.Path
	x.asked = append(x.asked, at)
	if to, ok := x.moved[at]; ok {
		http.Redirect(w, r, to, http.StatusFound)
		return
	}
	raw, ok := x.files[at]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(raw)
}

// hosts lists the hosts that were asked since the last call.
func (x *pythonIndex) hosts() (all []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, at := range x.asked {
		all = append(all, strings.SplitN(at, "/", 2)[0])
	}
	x.asked = nil
	slices.Sort(all)
	return slices.Compact(all)
}

// wheelOf makes a wheel with one module.
func wheelOf(t *testing.T, name, version, code string) []byte {
	t.Helper()
	return wheelThatLists(t, name, version, code, code)
}

// wheelThatLists makes a wheel whose list of files has the hash of another content of its module.
func wheelThatLists(t *testing.T, name, version, code, listed string) []byte {
	t.Helper()
	var raw bytes.Buffer
	z, record := zip.NewWriter(&raw), ""
	add := func(file, text string) {
		w, err := z.Create(file)
		hosttest.OK(t, err)
		_, err = w.Write([]byte(text))
		hosttest.OK(t, err)
		if file == name+".py" {
			text = listed
		}
		sum := sha256.Sum256([]byte(text))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", file, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
	}
	info := name + "-" + version + ".dist-info/"
	add(name+".py", code)
	add(info+"METADATA", "Metadata-Version: 2.1\nName: "+name+"\nVersion: "+version+"\n")
	add(info+"WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
	add(info+"RECORD", record+info+"RECORD,,\n")
	hosttest.OK(t, z.Close())
	return raw.Bytes()
}

func hashOf(raw []byte) string { return fmt.Sprintf(" --hash=sha256:%x", sha256.Sum256(raw)) }

// put puts a wheel on the index, linked from the page of its package.
func (x *pythonIndex) put(name, file, link string, raw []byte) {
	page := indexHost + "/simple/" + name + "/"
	x.files[page] = append(x.files[page], fmt.Sprintf("<!DOCTYPE html>\n<a class='x'\n href=\"%s\">%s</a><br/>\n", link, file)...)
	x.files[indexHost+"/files/"+file] = raw
}

type pythonTest struct {
	*pythonIndex
	services *hosttest.Services
	step     *steps.Step
	kind     steps.Kind
}

func newPythonTest(t *testing.T) *pythonTest {
	t.Helper()
	if out, err := exec.Command("/usr/bin/python3", "-I", "-m", "pip", "--version").CombinedOutput(); err != nil {
		t.Skipf("no pip of the system's own Python here: %v %s", err, out)
	}
	x := &pythonIndex{files: map[string][]byte{}, moved: map[string]string{}}
	server := httptest.NewUnstartedServer(x)
	listener := &pipes{conns: make(chan net.Conn)}
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(server.Close)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // it has no name of the index
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		listener.conns <- there
		return here, nil
	}
	h, services := hosttest.SystemHost(t)
	h.Downloads = download.Over(transport)
	kind, _ := steps.Lookup("python.env.create")
	return &pythonTest{x, services, &steps.Step{
		Host: h, Progress: func(int, string) {},
		Args: steps.Args{"source": indexHost + "/simple", "lock": lockFile, "root": "/opt/ht", "name": "env"},
		Plan: &taskcatalog.OperationPlan{Artifacts: &taskcatalog.PlanArtifacts{
			Sources: []string{"pypi:" + indexHost, "pypi:files.example/packages", "oci:evil.example"}, MaxBytes: 1 << 20,
		}},
	}, kind}
}

type pipes struct {
	conns chan net.Conn
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.conns) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pythonTest) create(t *testing.T, lock string) (steps.Proof, error) {
	t.Helper()
	hosttest.Put(t, "/", lockFile, lock)
	return p.kind.Do(t.Context(), p.step)
}

func (p *pythonTest) done(t *testing.T) bool {
	t.Helper()
	_, done, err := p.kind.Look(t.Context(), p.step)
	hosttest.OK(t, err)
	return done
}

func imports(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command(envDir+"/bin/python3", "-I", "-c", "import "+module+"; print("+module+".value)").CombinedOutput()
	if err != nil {
		return string(out)
	}
	return strings.TrimSpace(string(out))
}

func TestAPythonEnvironmentIsWhatItsLockFileSays(t *testing.T) {
	if !hosttest.System(t) {
		return
	}
	p := newPythonTest(t)
	one, two, other := wheelOf(t, "ht_one", "1.0", "value = 1\n"), wheelOf(t, "ht_two", "2.0", "value = 2\n"), wheelOf(t, "ht_one", "1.0", "value = 'planted'\n")
	sum := func(raw []byte) string { return fmt.Sprintf("#sha256=%x", sha256.Sum256(raw)) }
	p.put("ht-one", "ht_one-1.0-py2.py3-none-any.whl", "/files/ht_one-1.0-py2.py3-none-any.whl"+sum(other), other) // of another hash
	p.put("ht-one", "ht_one-1.0-cp39-cp39-win_amd64.whl", "../../files/ht_one-1.0-cp39-cp39-win_amd64.whl"+sum(one), one)
	p.put("ht-one", "ht_one-1.0-py3-none-any.whl", "../../files/ht_one-1.0-py3-none-any.whl"+sum(one), one)
	p.put("ht-one", "ht_one-1.0.tar.gz", "../../files/ht_one-1.0.tar.gz", one)
	p.put("ht-two", "ht_two-2.0-py3-none-any.whl", "https://files.example/packages/ht_two-2.0-py3-none-any.whl", nil)
	p.files["files.example/packages/ht_two-2.0-py3-none-any.whl"] = two
	// What pip would obey if it read it.
	planted := "[global]\nindex-url = https://evil.example/simple\nfind-links = /planted-links\n[install]\ntarget = /planted\nno-binary = :all:\n"
	for _, file := range []string{"etc/pip.conf", "root/.config/pip/pip.conf", "root/.pip/pip.conf", "nonexistent/.config/pip/pip.conf", ".config/pip/pip.conf"} {
		hosttest.Put(t, "/", file, planted)
	}
	for name, value := range map[string]string{"PIP_INDEX_URL": "https://evil.example/simple", "PIP_TARGET": "/planted", "PYTHONPATH": "/planted-path"} {
		t.Setenv(name, value)
	}
	hosttest.Put(t, "/", "planted-path/pip/__init__.py", "open('/planted', 'w')\n")
	lock := "HT.one[all]==1.0 \\\n  " + hashOf(one) + "\nht_two==2.0" + hashOf(two) + "\nht-none==1 ; sys_platform == 'win32'" + hashOf(one) + "\n"

	proof, err := p.create(t, lock)
	if err != nil || proof.Output != envDir || proof.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(lock))) || !p.done(t) {
		t.Fatalf("%+v, %v", proof, err)
	}
	if got := imports(t, "ht_one") + imports(t, "ht_two"); got != "12" {
		t.Errorf("the modules say %q", got)
	}
	if hosts := p.hosts(); !slices.Equal(hosts, []string{"files.example", indexHost}) {
		t.Errorf("asked %q", hosts)
	}
	if _, err := os.Stat("/planted"); err == nil {
		t.Error("pip obeys a file or a variable that is not the agent's")
	}
	if st, err := os.Stat(envDir + "/lib/" + interpreter(t) + "/site-packages/ht_one.py"); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("others cannot read a module: %v %v", st, err)
	}
	if _, err := os.Stat("/var/lib/hostler-agent/python-env"); err == nil {
		t.Error("what was downloaded is left behind")
	}

	// Nothing but content proves it.
	record := envDir + "/lib/" + interpreter(t) + "/site-packages/ht_two-2.0.dist-info/RECORD"
	was := hosttest.Read(t, "/", record)
	hosttest.Put(t, "/", record, was+"x.py,,\n")
	if p.done(t) {
		t.Error("an environment with another list of files counts as done")
	}
	hosttest.Put(t, "/", record, was)
	hosttest.Put(t, "/", lockFile, lock+"# another\n")
	if p.done(t) {
		t.Error("an environment of another lock file counts as done")
	}
	hosttest.Put(t, "/", lockFile, lock)
	if !p.done(t) {
		t.Error("the environment is no longer done")
	}
	hosttest.Put(t, "/", envDir+"/lib/"+interpreter(t)+"/site-packages/stale.py", "value = 3\n")
	if proof, err = p.create(t, "ht-one==1.0"+hashOf(one)); err != nil || !p.done(t) || imports(t, "ht_one") != "1" {
		t.Errorf("another lock file: %+v, %v", proof, err)
	}
	if got := imports(t, "ht_two") + imports(t, "stale"); strings.Count(got, "No module named") != 2 {
		t.Errorf("packages of before are left: %q", got)
	}
}

func interpreter(t *testing.T) string {
	t.Helper()
	to, err := os.Readlink("/usr/bin/python3")
	hosttest.OK(t, err)
	return filepath.Base(to)
}

func TestPackagesComeFromTheListedIndexWithTheirHashesOrNotAtAll(t *testing.T) {
	if !hosttest.System(t) {
		return
	}
	p := newPythonTest(t)
	raw := wheelOf(t, "ht_one", "1.0", "value = 1\n")
	const file, page = "ht_one-1.0-py3-none-any.whl", indexHost + "/simple/ht-one/"
	lock := "ht-one==1.0" + hashOf(raw)
	for name, c := range map[string]struct {
		link  string
		moved map[string]string
		set   func()
		code  taskcatalog.Code
	}{
		"another content":              {link: "/files/" + file, set: func() { p.files[indexHost+"/files/"+file] = append([]byte("x"), raw...) }, code: taskcatalog.CodeDigestMismatch},
		"a link to another host":       {link: "https://evil.example/" + file, code: taskcatalog.CodeSourceRefused},
		"of another kind":              {link: "https://evil.example/simple/" + file, code: taskcatalog.CodeSourceRefused},
		"a host that begins so":        {link: "https://" + indexHost + ".evil.example/" + file, code: taskcatalog.CodeSourceRefused},
		"a host behind an account":     {link: "https://" + indexHost + "@evil.example/" + file, code: taskcatalog.CodeSourceRefused},
		"a path beside the listed one": {link: "https://files.example/packages-of-others/" + file, code: taskcatalog.CodeSourceRefused},
		"a path that leads up":         {link: "https://files.example/packages/%2e%2e/" + file, code: taskcatalog.CodeSourceRefused},
		"a link without TLS":           {link: "http://" + indexHost + "/files/" + file, code: taskcatalog.CodeSourceRefused},
		"a link to a file":             {link: "file:///tmp/" + file, code: taskcatalog.CodeSourceRefused},
		"a redirect of the page":       {link: "/files/" + file, moved: map[string]string{page: "https://evil.example/simple/ht-one/"}, code: taskcatalog.CodeSourceRefused},
		"a redirect of the wheel":      {link: "/files/" + file, moved: map[string]string{indexHost + "/files/" + file: "https://127.0.0.1/" + file}, code: taskcatalog.CodeSourceRefused},
		"a redirect without TLS":       {link: "/files/" + file, moved: map[string]string{page: "http://" + indexHost + "/files/"}, code: taskcatalog.CodeSourceRefused},
		"a redirect without end":       {link: "/files/" + file, moved: map[string]string{page: "https://" + page}, code: taskcatalog.CodeSourceRefused},
		"no such package":              {link: "/files/" + file, set: func() { delete(p.files, page) }, code: steps.CodeWheelNotFound},
		"a source alone":               {link: "/files/ht_one-1.0.tar.gz", code: steps.CodeWheelNotFound},
		"a wheel of another":           {link: "/files/ht_two-1.0-py3-none-any.whl", code: steps.CodeWheelNotFound},
		"of another version":           {link: "/files/ht_one-1.0.1-py3-none-any.whl", code: steps.CodeWheelNotFound},
		"of another machine":           {link: "/files/ht_one-1.0-cp27-cp27m-win32.whl", code: steps.CodeWheelNotFound},
		"of another hash":              {link: "/files/" + file + "#sha256=" + strings.Repeat("0", 64), code: steps.CodeWheelNotFound},
		"more than the plan permits":   {link: "/files/" + file, set: func() { p.files[indexHost+"/files/"+file] = make([]byte, 2<<20) }, code: taskcatalog.CodeArtifactTooBig},
	} {
		p.files, p.moved = map[string][]byte{}, c.moved
		p.put("ht-one", file, c.link, raw)
		if c.set != nil {
			c.set()
		}
		_, err := p.create(t, lock)
		if taskcatalog.CodeOf(err, "") != c.code || p.done(t) {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		if slices.ContainsFunc(p.hosts(), func(h string) bool { return h != indexHost && h != "files.example" }) {
			t.Errorf("%s: a host off the list was asked", name)
		}
		if _, err := os.Lstat(envDir); err == nil {
			t.Errorf("%s: an environment was begun", name)
		}
	}
	p.files, p.moved = map[string][]byte{}, nil
	p.put("ht-one", file, "/files/"+file, raw)
	for _, source := range []string{"evil.example/simple", indexHost + ".evil.example/simple", indexHost + "/../simple", "user@" + indexHost + "/simple", "files.example"} {
		p.step.Args["source"] = source
		if _, err := p.create(t, lock); taskcatalog.CodeOf(err, "") != taskcatalog.CodeSourceRefused || len(p.hosts()) > 0 {
			t.Errorf("the index %s: %v", source, err)
		}
	}
	p.step.Args["source"] = indexHost + "/simple"
	if _, err := p.create(t, lock+"\n--index-url https://evil.example/simple\n"); taskcatalog.CodeOf(err, "") != steps.CodeLockRefused {
		t.Errorf("an option in the lock file: %v", err)
	}
	hosttest.OK(t, os.Remove(lockFile))
	hosttest.OK(t, os.Symlink("/etc/shadow", lockFile))
	if _, err := p.kind.Do(t.Context(), p.step); taskcatalog.CodeOf(err, "") != steps.CodeLockRefused || strings.Contains(err.Error(), "root:") {
		t.Errorf("a lock file that is a link: %v", err)
	}
}

func TestWhatAStepDidNotMakeStaysAtTheEnvironmentsPlace(t *testing.T) {
	if !hosttest.System(t) {
		return
	}
	p := newPythonTest(t)
	raw := wheelOf(t, "ht_one", "1.0", "value = 1\n")
	p.put("ht-one", "ht_one-1.0-py3-none-any.whl", "/files/ht_one-1.0-py3-none-any.whl", raw)
	hosttest.Put(t, "/", "srv/ht/data", "somebody's")
	for name, c := range map[string]struct {
		make func() error
		code taskcatalog.Code
	}{
		"a link":                     {func() error { return os.Symlink("/srv/ht", envDir) }, steps.CodePathTaken},
		"a link to nothing":          {func() error { return os.Symlink("/srv/nowhere", envDir) }, steps.CodePathTaken},
		"a file":                     {func() error { return os.WriteFile(envDir, nil, 0o644) }, steps.CodePathTaken},
		"content":                    {func() error { return os.MkdirAll(envDir+"/bin", 0o755) }, steps.CodePathTaken},
		"a link above":               {func() error { return relink("/opt/ht", "/srv/ht") }, steps.CodePathInsecure},
		"a directory that all write": {func() error { return os.Chmod("/opt/ht", 0o777) }, steps.CodePathInsecure},
		"of somebody else":           {func() error { return os.Chown("/opt/ht", 70001, 70001) }, steps.CodePathInsecure},
		"the environment is somebody else's": {func() error {
			return errors.Join(os.Mkdir(envDir, 0o755), os.Chown(envDir, 70001, 70001))
		}, steps.CodePathInsecure},
		"all write the environment": {func() error {
			return errors.Join(os.Mkdir(envDir, 0o755), os.Chmod(envDir, 0o777))
		}, steps.CodePathInsecure},
	} {
		hosttest.OK(t, os.RemoveAll("/opt/ht"))
		hosttest.OK(t, os.MkdirAll("/opt/ht", 0o755))
		hosttest.OK(t, c.make())
		if _, err := p.create(t, "ht-one==1.0"+hashOf(raw)); taskcatalog.CodeOf(err, "") != c.code || p.done(t) {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		names, err := os.ReadDir("/srv/ht")
		if err != nil || len(names) != 1 || hosttest.Read(t, "/", "srv/ht/data") != "somebody's" {
			t.Errorf("%s: a step wrote where the link leads: %v, %v", name, names, err)
		}
	}
	hosttest.OK(t, os.RemoveAll("/opt/ht"))
	hosttest.OK(t, os.MkdirAll(envDir, 0o755))
	if _, err := p.create(t, "ht-one==1.0"+hashOf(raw)); err != nil || !p.done(t) {
		t.Errorf("an empty directory, as a cut at the very beginning leaves: %v", err)
	}
	for name, open := range map[string]func() error{
		"another account's":   func() error { return os.Chown(envDir, 70001, 70001) },
		"writable for others": func() error { return os.Chmod(envDir, 0o775) },
	} {
		hosttest.OK(t, errors.Join(os.Chown(envDir, 0, 0), os.Chmod(envDir, 0o755)))
		if !p.done(t) {
			t.Errorf("before it is %s, the environment is not done", name)
		}
		hosttest.OK(t, open())
		if p.done(t) {
			t.Errorf("an environment that is %s counts as done", name)
		}
		if _, err := p.create(t, "ht-one==1.0"+hashOf(raw)); taskcatalog.CodeOf(err, "") != steps.CodePathInsecure || imports(t, "ht_one") != "1" {
			t.Errorf("an environment that is %s: %v, want %s, and its content stays", name, err, steps.CodePathInsecure)
		}
	}
}

func relink(name, to string) error {
	if err := unix.Rmdir(name); err != nil {
		return err
	}
	return os.Symlink(to, name)
}

// Each program is cut off while it runs, and each time the step runs again.
func TestAnEnvironmentThatWasCutOffIsMadeAnew(t *testing.T) {
	if !hosttest.System(t) {
		return
	}
	p := newPythonTest(t)
	raw := wheelOf(t, "ht_one", "1.0", "value = 1\n")
	p.put("ht-one", "ht_one-1.0-py3-none-any.whl", "/files/ht_one-1.0-py3-none-any.whl", raw)
	for _, at := range []string{"-c", "venv", "pip"} {
		p.services.Started = func(argv []string, cut func()) {
			if slices.Contains(argv, at) {
				cut()
			}
		}
		if _, err := p.create(t, "ht-one==1.0"+hashOf(raw)); err == nil || p.done(t) {
			t.Errorf("cut off in %s: %v", at, err)
		}
	}
	hosttest.Put(t, "/", envDir+"/lib/half", "written when the power went")
	p.services.Started = nil
	if _, err := p.create(t, "ht-one==1.0"+hashOf(raw)); err != nil || !p.done(t) || imports(t, "ht_one") != "1" {
		t.Errorf("after the cuts: %v", err)
	}
	if _, err := os.Stat(envDir + "/lib/half"); err == nil {
		t.Error("what the cut left is part of the environment")
	}
}
