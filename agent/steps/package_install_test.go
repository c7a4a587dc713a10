package steps_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/agent/download/downloadtest"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// deb is a package that a test makes: its control file beside name, version and maintainer, and the
// script that configures it.
type deb struct {
	name, version, control, postinst string
	data                             int // bytes of a file below /usr/share/ht-data
}

// debSource makes a source of packages in a directory, and adds it to apt's sources.
func debSource(t *testing.T, dir string, signed bool, debs ...deb) {
	t.Helper()
	var index strings.Builder
	hosttest.OK(t, os.MkdirAll(dir, 0o755))
	for i, d := range debs {
		tree := t.TempDir()
		control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: test <test@example>\n%sDescription: test\n",
			d.name, d.version, d.control)
		hosttest.Put(t, tree, "DEBIAN/control", control)
		hosttest.Put(t, tree, "usr/share/"+d.name, d.version+"\n")
		if d.data > 0 {
			hosttest.Put(t, tree, "usr/share/ht-data/"+d.name, string(downloadtest.Content(9, d.data)))
		}
		if d.postinst != "" {
			hosttest.Put(t, tree, "DEBIAN/postinst", "#!/bin/sh\n"+d.postinst)
			hosttest.OK(t, os.Chmod(filepath.Join(tree, "DEBIAN/postinst"), 0o755))
		}
		file := fmt.Sprintf("%d.deb", i)
		program(t, "/usr/bin/dpkg-deb", "--root-owner-group", "--build", tree, filepath.Join(dir, file))
		raw, err := os.ReadFile(filepath.Join(dir, file))
		hosttest.OK(t, err)
		fmt.Fprintf(&index, "%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", control, file, len(raw), sha256.Sum256(raw))
	}
	hosttest.Put(t, dir, "Packages", index.String())
	hosttest.Put(t, dir, "Release", fmt.Sprintf("Date: Sat, 28 Nov 2026 00:00:00 UTC\nSHA256:\n %x %d Packages\n",
		sha256.Sum256([]byte(index.String())), index.Len()))
	options := ""
	if signed {
		const home, key = "/gnupg", "/etc/apt/keyrings/ht.gpg"
		hosttest.OK(t, os.Mkdir(home, 0o700))
		hosttest.OK(t, os.MkdirAll(filepath.Dir(key), 0o755))
		gpg := []string{"/usr/bin/gpg", "--batch", "--quiet", "--homedir", home, "--passphrase", "", "--pinentry-mode", "loopback"}
		program(t, append(gpg, "--quick-gen-key", "test@example", "rsa3072", "sign", "never")...)
		program(t, append(gpg, "--output", key, "--export")...)
		program(t, append(gpg, "--output", filepath.Join(dir, "InRelease"), "--clearsign", filepath.Join(dir, "Release"))...)
		hosttest.OK(t, os.Chmod(key, 0o644))
		options = "[signed-by=" + key + "] "
	}
	hosttest.Put(t, "/", "etc/apt/sources.list.d/"+filepath.Base(dir)+".list", "deb "+options+"file:"+dir+" ./\n")
}

func program(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
}

// aptSystem is a copy of the system whose apt has no source yet.
func aptSystem(t *testing.T) (install func(packages ...string) (steps.Proof, error), look func(packages ...string) bool, s *hosttest.Services) {
	t.Helper()
	for _, need := range []string{"/usr/bin/apt-get", "/usr/bin/dpkg-deb", "/usr/bin/gpg"} {
		if _, err := os.Stat(need); err != nil {
			t.Skipf("apt is tested where it is at home: %v", err)
		}
	}
	hosttest.OK(t, errors.Join(os.RemoveAll("/etc/apt/sources.list.d"), os.RemoveAll("/etc/apt/sources.list"), os.RemoveAll("/var/lib/apt/lists")))
	h, s := hosttest.SystemHost(t)
	kind, _ := steps.Lookup("package.install")
	step := func(packages []string) *steps.Step {
		return &steps.Step{Host: h, Args: steps.Args{"packages": packages}, Progress: func(int, string) {}}
	}
	install = func(packages ...string) (steps.Proof, error) { return kind.Do(t.Context(), step(packages)) }
	look = func(packages ...string) bool {
		_, done, err := kind.Look(t.Context(), step(packages))
		hosttest.OK(t, err)
		return done
	}
	return install, look, s
}

func TestAptInstallsPackagesInTheirVersions(t *testing.T) {
	if !hosttest.System(t) {
		return
	}
	install, look, s := aptSystem(t)
	debSource(t, "/good", true,
		deb{name: "ht-a", version: "1.0"}, deb{name: "ht-a", version: "2.0-1~x"},
		deb{name: "ht-b", version: "1:1.0+b1", control: "Depends: ht-a (>= 1.0)\n"},
		deb{name: "ht-c", version: "1.0", control: "Conflicts: ht-a\n"},
		deb{name: "ht-d", version: "1.0", control: "Depends: ht-nowhere\n"},
		deb{name: "ht-e", version: "1.0", postinst: "echo cannot do that >&2\nexit 1\n"},
		deb{name: "ht-f", version: "1.0", postinst: `[ "$DEBIAN_FRONTEND$NEEDRESTART_SUSPEND" = noninteractive1 ] && [ -z "$(cat)" ]`},
		deb{name: "htxg", version: "1.0"},
		deb{name: "ht-h", version: "2.0", control: "Depends: ht-a (>= 2.0)\n"},
	)
	debSource(t, "/unsigned", false, deb{name: "ht-u", version: "1.0"})
	hosttest.OK(t, os.Rename("/etc/apt/sources.list.d/unsigned.list", "/unsigned.list"))
	for _, c := range []struct {
		packages []string
		code     taskcatalog.Code
		says     string
	}{
		{[]string{"ht-b=1:1.0+b1", "ht-a=1.0"}, "", "packages in their versions: 2"},
		{[]string{"ht-a=3.0"}, steps.CodePackageNotFound, "no package source of this machine has ht-a=3.0"},
		{[]string{"ht-z=1.0"}, steps.CodePackageNotFound, "ht-z=1.0"},
		{[]string{"ht.g=1.0"}, steps.CodePackageNotFound, "ht.g=1.0"}, // a name is no expression
		{[]string{"ht-a=2.0-1~x"}, "", ""},
		{[]string{"ht-a=1.0"}, "", ""}, // back, because it is the exact one
		{[]string{"ht-c=1.0"}, steps.CodePackageConflict, ""},
		{[]string{"ht-d=1.0"}, steps.CodePackageConflict, "ht-nowhere"},
		{[]string{"ht-f=1.0"}, "", ""},
		{[]string{"ht-e=1.0"}, steps.CodePackageInstallFailed, "error processing package ht-e"},
		{[]string{"ht-a=1.0", "ht-a=2.0-1~x"}, taskcatalog.CodePlanInvalid, "two versions"},
		{[]string{"hostler-agent=9.0"}, taskcatalog.CodePlanInvalid, "Hostler's own"},
		{[]string{"-oAPT::Update::Pre-Invoke::=touch /planted"}, profiles.CodeBadArgs, ""},
		{[]string{"--allow-unauthenticated"}, profiles.CodeBadArgs, ""},
		{[]string{"./0.deb=1.0"}, profiles.CodeBadArgs, ""},
		{[]string{"ht-a=1.0-"}, profiles.CodeBadArgs, ""}, // for apt the order to remove it
	} {
		proof, err := install(c.packages...)
		if got := taskcatalog.CodeOf(err, ""); got != c.code || err != nil && got == "" || !strings.Contains(fmt.Sprint(proof.Message, err), c.says) {
			t.Errorf("%q: %+v, %v with code %q, want %q and %q", c.packages, proof, err, got, c.code, c.says)
		}
		if c.code == profiles.CodeBadArgs {
			continue // dpkg knows no such name
		}
		if c.code != taskcatalog.CodePlanInvalid && look(c.packages...) != (c.code == "") {
			t.Errorf("%q: dpkg's records prove what did not happen, or do not prove what did", c.packages)
		}
	}
	if _, err := os.Stat("/planted"); err == nil {
		t.Error("a name became an option")
	}
	ran := len(s.Ran)
	if _, err := install("ht-a=1.0"); err != nil || !slices.Contains([]int{0, 1}, len(s.Ran)-ran) {
		t.Errorf("what is there is installed again: %v, %q", err, s.Ran[ran:])
	}

	program(t, "/usr/bin/dpkg", "--purge", "--force-all", "ht-e")
	program(t, "/usr/bin/apt-mark", "hold", "ht-a")
	if _, err := install("ht-h=2.0"); taskcatalog.CodeOf(err, "") != steps.CodePackageConflict || !look("ht-a=1.0") {
		t.Errorf("a package on hold is changed for the sake of another: %v", err)
	}
	if _, err := install("ht-a=2.0-1~x"); err != nil || !look("ht-a=2.0-1~x") {
		t.Errorf("a package on hold is not changed to the version that the plan names: %v", err)
	}

	hosttest.OK(t, os.Rename("/unsigned.list", "/etc/apt/sources.list.d/unsigned.list"))
	hosttest.Put(t, "/", "etc/apt/apt.conf.d/99site", "Acquire::AllowInsecureRepositories true;\nAPT::Get::AllowUnauthenticated true;\n")
	_, err := install("ht-u=1.0")
	if taskcatalog.CodeOf(err, "") != steps.CodePackageListsFailed || look("ht-u=1.0") || !strings.Contains(err.Error(), "not signed") {
		t.Errorf("an unsigned source, which the machine's own file permits: %v", err)
	}
	const trusted = "etc/apt/sources.list.d/trusted.list"
	hosttest.Put(t, "/", trusted, "deb [trusted=yes] file:/unsigned ./\n")
	if _, err := install("ht-u=1.0"); taskcatalog.CodeOf(err, "") != steps.CodePackageUntrusted || look("ht-u=1.0") {
		t.Errorf("an unsigned source that calls itself trusted: %v", err)
	}
	hosttest.OK(t, os.Remove("/"+trusted))
	hosttest.Put(t, "/", "elsewhere/trusted.list", "deb [trusted=yes] file:/unsigned ./\n")
	hosttest.Put(t, "/", "etc/apt/apt.conf.d/99elsewhere", "Dir::Etc::SourceParts \"/elsewhere\";\n")
	if _, err := install("ht-u=1.0"); err == nil || look("ht-u=1.0") {
		t.Errorf("a source that nobody has judged: %v", err)
	}
	hosttest.OK(t, os.Remove("/etc/apt/apt.conf.d/99elsewhere"))
	if _, err := install("htxg=1.0"); err != nil {
		t.Errorf("a source that cannot be read keeps packages of another out: %v", err)
	}
}

// The services of apt and dpkg are cut off in the middle, as by a loss of power.
func TestAnInstallationThatWasCutOffIsFinished(t *testing.T) {
	if !hosttest.System(t) {
		return
	}
	install, look, s := aptSystem(t)
	fifo := "/cut-here"
	program(t, "/usr/bin/mkfifo", fifo)
	debSource(t, "/good", true,
		deb{name: "ht-a", version: "1.0", postinst: "[ ! -p " + fifo + " ] || echo here > " + fifo + "\n[ ! -p " + fifo + " ] || sleep 1000\n"},
		deb{name: "ht-b", version: "1.0", control: "Depends: ht-a\n"})
	s.Started = func(argv []string, cut func()) {
		if !slices.Contains(argv, "install") {
			return
		}
		if f, err := os.Open(fifo); err == nil {
			_, _ = f.Read(make([]byte, 8))
			_ = f.Close()
		}
		cut()
	}
	if _, err := install("ht-b=1.0", "ht-a=1.0"); err == nil || look("ht-a=1.0") {
		t.Fatalf("a package whose script was cut off counts as installed: %v", err)
	}
	s.Started = nil
	hosttest.OK(t, os.Remove(fifo))
	hosttest.Put(t, "/", "var/lib/dpkg/updates/0001", "Package: ht-a\nStatus: install ok half-configured\nArchitecture: all\nVersion: 1.0\nMaintainer: x\nDescription: x\n\n")
	first := len(s.Ran)
	if _, err := install("ht-b=1.0", "ht-a=1.0"); err != nil || !look("ht-b=1.0", "ht-a=1.0") {
		t.Fatalf("it is not finished: %v", err)
	}
	if argv := s.Ran[first]; argv[0] != "/usr/bin/dpkg" || !slices.Contains(argv, "--configure") {
		t.Errorf("first ran %q", argv)
	}
}

const dpkgStatus = "Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.21\n\n"

func TestOnlyDpkgsOwnRecordProvesAPackage(t *testing.T) {
	kind, _ := steps.Lookup("package.install")
	record := func(status, arch, version string) string {
		return dpkgStatus + "Package: nvidia-driver\nStatus: " + status + "\nArchitecture: " + arch + "\nVersion: " + version + "\n"
	}
	for name, c := range map[string]struct {
		status, update string
		done           bool
		code           taskcatalog.Code
	}{
		"installed":             {record("install ok installed", "amd64", "550.1-1"), "", true, ""},
		"for all architectures": {record("install ok installed", "all", "550.1-1"), "", true, ""},
		"on hold":               {record("hold ok installed", "amd64", "550.1-1"), "", true, ""},
		"of another machine":    {record("install ok installed", "arm64", "550.1-1"), "", false, ""},
		"in another version":    {record("install ok installed", "amd64", "550.1-10"), "", false, ""},
		"unpacked":              {record("install ok unpacked", "amd64", "550.1-1"), "", false, ""},
		"half-configured":       {record("install ok half-configured", "amd64", "550.1-1"), "", false, ""},
		"waits for triggers":    {record("install ok triggers-pending", "amd64", "550.1-1"), "", false, ""},
		"broken":                {record("install reinstreq installed", "amd64", "550.1-1"), "", false, ""},
		"removed":               {record("deinstall ok config-files", "amd64", "550.1-1"), "", false, ""},
		"not there":             {dpkgStatus, "", false, ""},
		"dpkg was cut off":      {record("install ok installed", "amd64", "550.1-1"), "0007", false, ""},
		"a status of two words": {record("install ok", "amd64", "550.1-1"), "", false, "?"},
		"without dpkg":          {"", "", false, taskcatalog.CodeStepUnsupported},
	} {
		h, dir := hosttest.Box(t)
		if c.status != "" {
			hosttest.Put(t, dir, "var/lib/dpkg/status", c.status)
		}
		if c.update != "" {
			hosttest.Put(t, dir, "var/lib/dpkg/updates/"+c.update, "")
		}
		_, done, err := kind.Look(t.Context(), &steps.Step{Host: h, Args: steps.Args{"packages": []string{"nvidia-driver=550.1-1"}}})
		if done != c.done || (err != nil) != (c.code != "") || c.code != "?" && taskcatalog.CodeOf(err, "") != c.code {
			t.Errorf("%s: done %v, %v", name, done, err)
		}
	}
}

// installing is a systemd whose only unit is another install, which runs for a while.
type installing struct {
	hosttest.Systemd
	runs atomic.Bool
}

func (s *installing) Active(_ context.Context, unit string) (bool, error) {
	return unit == "hostler-package-install.service" && s.runs.Load(), nil
}

// cloud-init installs packages itself, and an earlier agent may have begun.
func TestNoPackageIsInstalledBeforeTheMachineIsAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, dir := hosttest.Box(t)
		hosttest.Put(t, dir, "var/lib/dpkg/status", dpkgStatus)
		var boot atomic.Bool
		h.FirstBoot = boot.Load
		systemd := &installing{}
		systemd.runs.Store(true)
		h.Systemd = systemd
		var said []string
		kind, _ := steps.Lookup("package.install")
		step := &steps.Step{Host: h, Args: steps.Args{"packages": []string{"dpkg=1.21"}}, Progress: func(_ int, m string) { said = append(said, m) }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() { _, err := kind.Do(ctx, step); ended <- err }()
		time.Sleep(10 * time.Second) // of the bubble's clock
		synctest.Wait()
		if len(said) < 2 || said[0] != "waits for the end of the first boot" {
			t.Errorf("said %q", said)
		}
		boot.Store(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if last := said[len(said)-1]; last != "waits for hostler-package-install.service" {
			t.Errorf("said %q", last)
		}
		systemd.runs.Store(false)
		if err := <-ended; err != nil || len(systemd.Asked) > 0 {
			t.Errorf("what is there was installed: %v, %q", err, systemd.Asked)
		}
	})
}
