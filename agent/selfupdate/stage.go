package selfupdate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Files of a release that is being fetched.
const (
	layerFile   = "layer.unverified"
	programFile = program + ".unverified"
)

// spare is the space in bytes that staging leaves free on a file system.
const spare = 64 << 20

// Stager brings releases to a node. It changes nothing that runs.
type Stager struct {
	Store *Store
	// StateDir is the agent's state directory; Parts are its parts kept over a switch.
	StateDir string
	Parts    []Part
	// Keys are the release keys in force at this moment.
	Keys func() release.Keys
	// Forms returns the forms of the agent's state on this node: those of its ledger,
	// configuration, identity and update record.
	Forms    func() ([]int, error)
	OS, Arch string
	// Test runs the self-test of the program at a path: RunSelfTest.
	Test func(ctx context.Context, file string) (*SelfTest, error)
	// Progress reports how far the staging is.
	Progress func(step string, percent int, message string)
}

// Target is a release to stage.
type Target struct {
	Version    string
	Manifest   release.Part
	Signatures []release.Signature
	Source     Source
	Floor      string // empty: none
	Force      bool   // allow a version that failed before
	ID         string // the task's id
}

// Staged is the result of Stage.
type Staged struct {
	Slot    string
	Already bool // the slot existed before
	Fetched int64
	Retries int
}

// Stage fetches a release, verifies it, tests it, and gives it a slot. The fetched bytes of an
// unfinished release are kept for the next try, unless the disk is full: then everything is as
// before.
func (s *Stager) Stage(ctx context.Context, want Target) (*Staged, error) {
	st, err := s.Store.Load()
	if err != nil {
		return nil, err
	}
	switch pin := st.Pinned(want.Version); {
	case st.unsettled():
		return nil, underWay(st.Trial)
	case pin != nil && !want.Force:
		return nil, pinned(pin)
	case !release.ValidVersion(want.Version) || !release.ValidDigest(want.Manifest.Digest):
		return nil, taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot stage %s: not a version, or the manifest has no digest",
			taskcatalog.Clean(want.Version, 80))
	}
	folder := want.Version + "-" + strings.TrimPrefix(want.Manifest.Digest, "sha256:")[:12]
	out := new(Staged)
	f := &fetcher{source: want.Source, now: s.Store.now, progress: func(done, of int64) {
		s.Progress("fetch", int(done*100/max(of, 1)), fmt.Sprintf("%d of %d bytes", done, of))
	}}
	done, err := s.Store.stages(true)
	if err != nil {
		return nil, err
	}
	defer done()
	if err = s.Store.collect(unverified + folder); err == nil {
		err = s.stage(ctx, st, want, folder, f, out)
	}
	out.Fetched, out.Retries = f.fetched, f.retries
	if isFull(err) {
		err = errors.Join(taskcatalog.Errorf(CodeNoSpace, "cannot stage %s: the disk is full; nothing was changed (free space below %s)",
			want.Version, taskcatalog.AgentFolder),
			s.Store.collect(""))
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Stager) stage(ctx context.Context, st *State, want Target, folder string, f *fetcher, out *Staged) error {
	m, statement, err := s.judge(ctx, want, f)
	if err != nil {
		return err
	}
	if out.Slot = s.existingSlot(st, want.Version, statement); out.Slot != "" {
		out.Already = true
		return s.record(out.Slot, want, m, statement)
	}
	dir := path.Join(versions, unverified+folder)
	if err := s.checkSpace(m, statement); err != nil {
		return err
	}
	if err := s.Store.folder(s.Store.lib, dir, 0o700); err != nil {
		return err
	}
	if err := s.unpack(ctx, m, statement, dir, f); err != nil {
		return err
	}
	tested := path.Join(versions, verified+folder)
	if err := errors.Join(s.Store.remove(s.Store.lib, tested), s.Store.rename(s.Store.lib, dir, tested)); err != nil {
		return err
	}
	s.Progress("self-test", 0, "")
	if err := s.tryOut(ctx, tested, want, statement); err != nil {
		return errors.Join(err, s.Store.remove(s.Store.lib, tested))
	}
	if out.Slot, err = s.slotFor(want.Version, statement); err != nil {
		return err
	}
	if err := s.Store.rename(s.Store.lib, tested, path.Join(versions, out.Slot)); err != nil {
		return err
	}
	return s.record(out.Slot, want, m, statement)
}

// judge fetches manifest and statement, and verifies that the release may be installed here.
func (s *Stager) judge(ctx context.Context, want Target, f *fetcher) (*release.Manifest, *release.Statement, error) {
	s.Progress("verify", 0, "")
	raw, err := f.small(ctx, want.Manifest)
	if err != nil {
		return nil, nil, err
	}
	m, err := release.Open(raw, want.Signatures, s.Keys(), want.Manifest.Digest)
	if err != nil {
		return nil, nil, err
	}
	if raw, err = f.small(ctx, m.Statement); err != nil {
		return nil, nil, err
	}
	statement, err := m.ReadStatement(raw)
	if err != nil {
		return nil, nil, err
	}
	forms, err := s.Forms()
	if err != nil {
		return nil, nil, err
	}
	for _, form := range forms {
		if err := statement.Meets(release.Demand{
			Version: want.Version, OS: s.OS, Arch: s.Arch, Floor: want.Floor,
			State: form,
		}); err != nil {
			return nil, nil, err
		}
	}
	return m, statement, nil
}

// existingSlot returns the slot that already has the program; empty: none has.
func (s *Stager) existingSlot(st *State, version string, statement *release.Statement) string {
	names, _ := s.Store.folders()
	for _, name := range names {
		plain, _, _ := strings.Cut(name, "_")
		if slotName.MatchString(name) && plain == version && s.Store.checkSlot(name, Slot{SHA256: statement.Binary.SHA256}) == nil {
			return name
		}
	}
	return ""
}

// checkSpace refuses a release that would not fit beside the space needed by the switch.
func (s *Stager) checkSpace(m *release.Manifest, statement *release.Statement) error {
	left, err := freeBytes(s.Store.lib)
	if err != nil {
		return err
	}
	if need := m.Layer.Size + statement.Binary.Size + spare; left < need {
		return taskcatalog.Errorf(CodeNoSpace, "cannot stage %s: the release needs %d MiB, and %d MiB are free (free space below %s)",
			statement.Version, need>>20, left>>20, taskcatalog.AgentFolder)
	}
	return nil
}

// unpack fetches the layer and unpacks the program, both under names marked unverified.
func (s *Stager) unpack(ctx context.Context, m *release.Manifest, statement *release.Statement, dir string, f *fetcher) error {
	d := &s.Store.disk
	layer, binary := path.Join(dir, layerFile), path.Join(dir, programFile)
	for again := false; ; again = true {
		if err := f.large(ctx, d, m.Layer, layer); err != nil {
			return err
		}
		s.Progress("unpack", 0, "")
		err := d.fill(d.lib, binary, 0o600, func(w io.Writer) error {
			from, err := d.lib.Open(layer)
			if err != nil {
				return err
			}
			defer func() { _ = from.Close() }()
			return m.Unpack(w, from, statement)
		})
		if err == nil {
			break
		}
		// A loss of power may have left holes in the bytes fetched by an earlier task: fetch once
		// more from the beginning. An error after this is the source's.
		code := taskcatalog.CodeOf(err, "")
		if code != release.CodeDigestMismatch && code != release.CodeBinaryMismatch {
			return err
		}
		if err := errors.Join(d.remove(d.lib, layer), d.remove(d.lib, binary)); err != nil {
			return err
		}
		if again || f.fetched >= m.Layer.Size { // all bytes were fetched just now
			return errors.Join(err, d.remove(d.lib, dir))
		}
	}
	if err := d.remove(d.lib, layer); err != nil {
		return err
	}
	if err := d.lib.Chmod(binary, 0o755); err != nil {
		return err
	}
	if err := d.lib.Chmod(dir, 0o755); err != nil {
		return err
	}
	return d.rename(d.lib, binary, path.Join(dir, program))
}

// tryOut runs the program's self-test and compares the output with the release's statement. A
// version that fails twice is skipped from now on, if the running program passes with the same
// configuration on the same machine: a fault common to both is not the version's.
func (s *Stager) tryOut(ctx context.Context, dir string, want Target, statement *release.Statement) error {
	err := s.test(ctx, dir, want.Version, statement.StateSchema)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if _, runs := s.Test(ctx, path.Join(s.Store.lib.Name(), current, program)); runs != nil {
		return taskcatalog.Errorf(CodeSelfTest, "%v; the running version does not pass its self-test either, so %s is not skipped: %v", err,
			want.Version, runs)
	}
	if err = s.test(ctx, dir, want.Version, statement.StateSchema); err == nil || ctx.Err() != nil {
		return err
	}
	pin := Pin{
		Version: want.Version, Reason: CodeSelfTest, Message: taskcatalog.Clean(err.Error(), taskcatalog.MaxText), ID: want.ID,
		At: s.Store.now().UTC(),
	}
	return errors.Join(err, s.Store.Change(func(st *State) error {
		st.pin(pin)
		return nil
	}))
}

func (s *Stager) test(ctx context.Context, dir, version string, state release.StateSchema) error {
	said, err := s.Test(ctx, path.Join(s.Store.lib.Name(), dir, program))
	switch {
	case err != nil:
		return taskcatalog.Errorf(CodeSelfTest, "version %s does not pass its self-test on this node: %v", version, err)
	case said.Version != version || state != (release.StateSchema{}) && said.State != state:
		return taskcatalog.Errorf(CodeSelfTest, "the program reports version %s with state %v, and its signed statement names %s with %v",
			taskcatalog.Clean(said.Version, 64), said.State, version, state)
	}
	return nil
}

// slotFor returns the name of the slot for a version: the plain version, or a name with the digest
// if the plain slot holds another program and is in use.
func (s *Stager) slotFor(version string, statement *release.Statement) (string, error) {
	for _, name := range []string{version, version + "_" + statement.Binary.SHA256[:12]} {
		used, err := s.Store.inUse(name)
		if err != nil {
			return "", err
		}
		if !used {
			return name, s.Store.remove(s.Store.lib, path.Join(versions, name))
		}
	}
	return "", taskcatalog.Errorf(CodeSlotInUse, "cannot stage %s: its slots are in use and damaged (reimage the node)", version)
}

// inUse reports whether a slot has a reference, or belongs to dpkg.
func (s *Store) inUse(slot string) (bool, error) {
	st, err := s.Load()
	if err != nil {
		return false, err
	}
	for _, name := range []string{s.Current(), s.linkTarget(good), s.linkTarget(packaged), st.Good, st.Previous} {
		if name == slot {
			return true, nil
		}
	}
	return st.Trial != nil && (st.Trial.From == slot || st.Trial.To == slot), nil
}

func (s *Stager) record(slot string, want Target, m *release.Manifest, statement *release.Statement) error {
	return s.Store.Change(func(st *State) error {
		st.Slots[slot] = Slot{
			Version: statement.Version, SHA256: statement.Binary.SHA256, Release: m.Digest, KeyID: m.KeyID,
			State: statement.StateSchema, At: s.Store.now().UTC().Truncate(time.Second),
		}
		st.Staged = slot
		if want.Force {
			st.unpin(want.Version)
		}
		return nil
	})
}

func underWay(t *Trial) error {
	return taskcatalog.Errorf(CodeUnderWay,
		"cannot update the agent: version %s has been on trial since %s (delivery %s; hostler-agent update revert ends the trial)",
		t.ToVersion, t.ArmedAt.UTC().Format(time.RFC3339), t.ID)
}

func pinned(p *Pin) error {
	return taskcatalog.Errorf(CodePinned,
		"version %s is skipped on this node since %s: %s: %s (hostler-agent update unpin %s, or a task with force and a reason)",
		p.Version, p.At.UTC().Format(time.RFC3339), p.Reason, p.Message, p.Version)
}
