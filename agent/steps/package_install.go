package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Why packages are not installed.
const (
	CodePackageNotFound      taskcatalog.Code = "package_not_found" // no source has the version
	CodePackageListsFailed   taskcatalog.Code = "package_lists_failed"
	CodePackageConflict      taskcatalog.Code = "package_conflict" // another package stands against it
	CodePackageUntrusted     taskcatalog.Code = "package_untrusted"
	CodePackageLockBusy      taskcatalog.Code = "package_lock_busy"
	CodePackageInstallFailed taskcatalog.Code = "package_install_failed"
)

const (
	packageUnit = "hostler-package-install.service"
	packageLog  = "package-install.log" // below the agent's state directory
	// lockPatience is how long dpkg's lock is waited for where dpkg does not wait itself.
	lockPatience = 10 * time.Minute
	packagePause = 3 * time.Second
)

// packageEnv is the environment of apt, dpkg and the packages' scripts: they ask nothing, and
// restart no service that a package does not restart itself.
var packageEnv = []string{
	"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/root",
	"DEBIAN_FRONTEND=noninteractive", "APT_LISTCHANGES_FRONTEND=none", "NEEDRESTART_SUSPEND=1",
}

// lookPackages proves by dpkg's records that every package is there in its version.
func lookPackages(_ context.Context, s *Step) (Proof, bool, error) {
	found, err := packagesOf(s)
	if err != nil {
		return Proof{}, false, err
	}
	if found.interrupted || len(found.missing) > 0 {
		return Proof{}, false, nil
	}
	return Proof{Message: fmt.Sprintf("packages in their versions: %d", len(found.want))}, true, nil
}

// installPackages brings the packages by apt. apt and dpkg run as a service of their own: a package's
// scripts need rights that the agent does not have, and an agent that restarts does not cut them off.
func installPackages(ctx context.Context, s *Step) (Proof, error) {
	if _, err := packagesOf(s); err != nil {
		return Proof{}, err
	}
	if err := packagesAtRest(ctx, s); err != nil {
		return Proof{}, err
	}
	found, err := packagesOf(s)
	if err == nil && (found.interrupted || found.unsettled) {
		s.Progress(5, "dpkg was cut off: what it left is configured first")
		err = configurePackages(ctx, s)
	}
	if err != nil {
		return Proof{}, err
	}
	if proof, done, err := lookPackages(ctx, s); done || err != nil {
		return proof, err
	}
	if err := signedSources(s.Host.Machine); err != nil {
		return Proof{}, err
	}
	s.Progress(10, "the lists of packages are updated")
	updated, err := aptUpdate(ctx, s)
	if err != nil {
		return Proof{}, err
	}
	if found, err = packagesOf(s); err == nil {
		err = found.inSources(ctx, s, updated)
	}
	if err != nil {
		return Proof{}, err
	}
	s.Progress(30, "packages are installed")
	args := map[string]any{"verb": "install", "packages": found.list()}
	if found.changes { // every package has its exact version, so an older one is meant
		args["downgrades"] = true
	}
	if found.held {
		args["held"] = true
	}
	exit, said, err := runPackageTool(ctx, s, "apt_install", args)
	if err != nil {
		return Proof{}, err
	}
	if exit != 0 {
		return Proof{}, installFailed(ctx, s, exit, said)
	}
	proof, done, err := lookPackages(ctx, s)
	if err == nil && !done {
		err = taskcatalog.Errorf(CodePackageInstallFailed, "apt-get ended well, and dpkg does not have every package in its version")
	}
	return proof, err
}

// packages are the packages of a step beside what dpkg has.
type packages struct {
	want    map[string]string // name → version
	missing map[string]string
	changes bool // a missing one is there in another version
	held    bool // a missing one is on hold
	// interrupted: dpkg's list is not the last word. unsettled: dpkg has left something undone.
	interrupted, unsettled bool
}

func packagesOf(s *Step) (packages, error) {
	p := packages{want: map[string]string{}, missing: map[string]string{}}
	for _, one := range s.Args.Texts("packages") {
		name, version, _ := strings.Cut(one, "=")
		if had, twice := p.want[name]; twice && had != version {
			return p, taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "package %s is wanted in two versions", name)
		}
		if strings.HasPrefix(name, "hostler-") {
			return p, taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "package %s is Hostler's own (hostler agent-release)", name)
		}
		p.want[name] = version
	}
	if _, err := profiles.PackageTools()["apt_install"].Argv(map[string]any{"verb": "install", "packages": s.Args.Texts("packages")}); err != nil {
		return p, err
	}
	all, interrupted, err := s.Host.Machine.PackageStates()
	if errors.Is(err, fs.ErrNotExist) {
		return p, taskcatalog.Errorf(taskcatalog.CodeStepUnsupported, "cannot install packages: this machine has no dpkg")
	}
	if err != nil {
		return p, err
	}
	p.interrupted = interrupted
	maps.Copy(p.missing, p.want)
	native := nativeArch(all)
	for _, state := range all {
		p.unsettled = p.unsettled || !state.Settled()
		version, wanted := p.want[state.Name]
		switch {
		case !wanted || state.Arch != native && state.Arch != "all":
		case state.Installed() && state.Version == version:
			delete(p.missing, state.Name)
		case state.State != "not-installed" && state.State != "config-files":
			p.changes = true
			p.held = p.held || state.Want == "hold"
		}
	}
	return p, nil
}

// nativeArch is the architecture of dpkg itself.
func nativeArch(all []machine.PackageState) string {
	i := slices.IndexFunc(all, func(p machine.PackageState) bool { return p.Name == "dpkg" })
	if i < 0 {
		return ""
	}
	return all[i].Arch
}

// list returns the packages for apt. Those that are there are among them, so that apt keeps them.
func (p packages) list() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.want)) {
		all = append(all, name+"="+p.want[name])
	}
	return all
}

// inSources checks that a source has each missing package in its version. updated: every source was
// read just now, so that asking again is of no use.
func (p packages) inSources(ctx context.Context, s *Step, updated updateResult) error {
	res, err := s.Host.Commands.Run(ctx, profiles.PackageTools()["apt_versions"], map[string]any{"names": slices.Sorted(maps.Keys(p.missing))})
	if err != nil {
		return err
	}
	if res.Stdout.Cut() {
		return taskcatalog.Errorf(CodePackageListsFailed, "the list of the packages' versions is longer than %d bytes", len(res.Stdout.Kept))
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(res.Stdout.Kept)) {
		if f := strings.Split(line, "|"); len(f) == 3 {
			listed[strings.TrimSpace(f[0])+"="+strings.TrimSpace(f[1])] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.missing)) {
		one := name + "=" + p.missing[name]
		switch {
		case listed[one]:
		case noSpace(updated.failed):
			return taskcatalog.Errorf(taskcatalog.CodeDiskFull, "a file system of the node is full: %s (free space on the node, and retry)", updated.failed)
		case updated.failed != "":
			return taskcatalog.Errorf(CodePackageListsFailed, "no list that could be read has %s, and not every list could: %s", one, updated.failed)
		default:
			return taskcatalog.Errorf(CodePackageNotFound, "no package source of this machine has %s (apt-cache madison %s)", one, name)
		}
	}
	return nil
}

// packagesAtRest waits for the end of the first boot, which installs packages too, and for a run of
// this step that an earlier agent has begun.
func packagesAtRest(ctx context.Context, s *Step) error {
	for s.Host.FirstBoot != nil && !s.Host.FirstBoot() {
		s.Progress(0, "waits for the end of the first boot")
		if err := host.Wait(ctx, packagePause); err != nil {
			return err
		}
	}
	for {
		active, err := s.Host.Systemd.Active(ctx, packageUnit)
		if err != nil || !active {
			return err
		}
		s.Progress(0, "waits for "+packageUnit)
		if err := host.Wait(ctx, packagePause); err != nil {
			return err
		}
	}
}

// configurePackages finishes what a dpkg that was cut off has left.
func configurePackages(ctx context.Context, s *Step) error {
	for until := s.Host.Now().Add(lockPatience); ; {
		exit, said, err := runPackageTool(ctx, s, "dpkg_configure", nil)
		switch {
		case err != nil:
			return err
		case exit == 0:
			return nil
		case !lockBusy(said):
			return nil // a package that cannot be configured now may be so by what is installed with it
		case s.Host.Now().After(until):
			return taskcatalog.Errorf(CodePackageLockBusy, "another program holds dpkg's lock: %s", excerpt(said))
		}
		s.Progress(5, "waits for dpkg's lock")
		if err := host.Wait(ctx, packagePause); err != nil {
			return err
		}
	}
}

// updateResult says why lists could not be read; empty: all were.
type updateResult struct{ failed string }

// aptUpdate reads the lists of all sources. One that cannot be read is no fault yet: the packages may be
// in another.
func aptUpdate(ctx context.Context, s *Step) (updateResult, error) {
	exit, said, err := runPackageTool(ctx, s, "apt_update", nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return updateResult{}, err
	case err != nil:
		return updateResult{failed: taskcatalog.Clean(err.Error(), 300)}, nil
	case exit != 0:
		return updateResult{failed: excerpt(said)}, nil
	}
	return updateResult{}, nil
}

// runPackageTool runs a program of profiles.PackageTools as a service, and returns its exit status and
// the end of what it printed.
func runPackageTool(ctx context.Context, s *Step, id string, args map[string]any) (int, string, error) {
	profile := profiles.PackageTools()[id]
	if err := s.Host.Commands.Check(profile); err != nil {
		return 0, "", err
	}
	argv, err := profile.Argv(args)
	if err != nil {
		return 0, "", err
	}
	output := path.Join(s.Host.StateDir, packageLog)
	exit, err := s.Host.Systemd.Finish(ctx, host.Service{
		Unit: packageUnit, Argv: argv, Env: packageEnv, Output: output, Timeout: time.Duration(profile.TimeoutSeconds) * time.Second,
	})
	if err != nil {
		return 0, "", err
	}
	said, err := tail(s.Host.Machine, output, 16<<10)
	return exit, said, err
}

// tail returns the end of a file: programs print last why they end.
func tail(m *machine.Machine, name string, most int64) (string, error) {
	f, err := m.OpenFile(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(io.NewSectionReader(f, max(0, st.Size()-most), most))
	return string(raw), err
}

// excerpt returns what apt and dpkg say of errors, or else the end, in one line.
func excerpt(said string) string {
	var errs []string
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "E: ") || strings.HasPrefix(line, "dpkg: error") ||
			strings.Contains(line, "Depends: ") || strings.Contains(line, "Conflicts: ") {
			errs = append(errs, line)
		}
	}
	if len(errs) == 0 {
		errs = []string{strings.Join(strings.Fields(said[max(0, len(said)-300):]), " ")}
	}
	return taskcatalog.Clean(strings.Join(errs, "; "), 400)
}

// noSpace reports whether a program has said that a file system is full.
func noSpace(said string) bool {
	return strings.Contains(said, "No space left on device") || strings.Contains(said, "have enough free space")
}

func lockBusy(said string) bool {
	return strings.Contains(said, "Could not get lock") || strings.Contains(said, "lock was locked by another process") ||
		strings.Contains(said, "Unable to acquire the dpkg frontend lock")
}

// aptDirs are where apt and dpkg write.
var aptDirs = []string{"/usr", "/var/lib/dpkg", "/var/cache/apt/archives"}

// installFailed says why an installation has failed. On a full disk nothing stays half done: what apt has
// downloaded is removed, and what dpkg has unpacked is configured.
func installFailed(ctx context.Context, s *Step, exit int, said string) error {
	fault := installFault(exit, said)
	if taskcatalog.CodeOf(fault, "") == CodePackageInstallFailed && hasNoRoom(s.Host.Machine, append(aptDirs, s.Host.StateDir)...) {
		fault = taskcatalog.Errorf(taskcatalog.CodeDiskFull, "%v", fault)
	}
	if isFull(fault) {
		_, _, err := runPackageTool(ctx, s, "apt_clean", nil)
		fault = errors.Join(fault, err, configurePackages(ctx, s))
	}
	return fault
}

// installFault gives what apt says a code. Its words are English: LANG is part of the environment.
func installFault(exit int, said string) error {
	code := CodePackageInstallFailed
	for _, known := range []struct {
		words string
		code  taskcatalog.Code
	}{
		{"was not found", CodePackageNotFound},
		{"Unable to locate package", CodePackageNotFound},
		{"has no installation candidate", CodePackageNotFound},
		{"unauthenticated packages", CodePackageUntrusted},
		{"could not be authenticated", CodePackageUntrusted},
		{"have unmet dependencies", CodePackageConflict},
		{"held broken packages", CodePackageConflict},
		{"Held packages were changed", CodePackageConflict},
		{"Packages were downgraded", CodePackageConflict},
		{"but remove is disabled", CodePackageConflict},
	} {
		if strings.Contains(said, known.words) {
			code = known.code
			break
		}
	}
	switch {
	case lockBusy(said):
		code = CodePackageLockBusy
	case noSpace(said):
		code = taskcatalog.CodeDiskFull
	}
	return taskcatalog.Errorf(code, "apt-get install ended with %d: %s (log: %s)", exit, excerpt(said), packageLog)
}
