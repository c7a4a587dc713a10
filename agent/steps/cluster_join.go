package steps

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	slurmUnit = "slurmd.service"
	// unitRoot and joinDropIn are of the file that tells slurmd which cluster to join.
	unitRoot, joinDropIn = "/etc/systemd/system", "slurmd.service.d/50-hostler.conf"
	// keyMode lets a key's owner alone read it: munged and slurmd take no key that others can read.
	keyMode = 0o400
)

// joinKey is where a way to authenticate has its key, and which unit reads it before slurmd does.
type joinKey struct{ root, name, owner, unit string }

// joinKeys is the table of the ways to authenticate to a Slurm controller.
var joinKeys = map[string]joinKey{
	"munge": {"/etc/munge", "munge.key", "munge", "munge.service"},
	"slurm": {"/etc/slurm", "slurm.key", "slurm", ""},
}

// The forms of what goes into the unit's file: nothing that systemd would expand, quote or split.
var (
	joinNode       = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)
	joinController = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,252}:[1-9][0-9]{0,4}$`)
	joinLabel      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// checkSlurm judges a planned join or leave: the agent knows Slurm alone.
func checkSlurm(s *taskcatalog.PlannedStep) error {
	if backend, _ := s.With["cluster"].Literal.(string); backend != "slurm" {
		return fmt.Errorf("is for a cluster of %s, and this agent knows slurm alone", taskcatalog.Clean(backend, 32))
	}
	return nil
}

// joined is the step's checkpoint: digests of what it put in place. A look has no credential.
type joined struct {
	Auth string `json:"auth"`
	Key  string `json:"key"`
	Unit string `json:"unit"`
}

// lookJoined reports whether the key and the unit's file are those that the step put in place, and
// slurmd runs. Whether the cluster has taken the node is for cluster.verify to say.
func lookJoined(ctx context.Context, s *Step) (Proof, bool, error) {
	raw, err := s.Checkpoint.Load()
	if err != nil || raw == nil {
		return Proof{}, false, err
	}
	var was joined
	if json.Unmarshal(raw, &was) != nil {
		return Proof{}, false, nil
	}
	at, known := joinKeys[was.Auth]
	if !known {
		return Proof{}, false, nil
	}
	uid, gid, err := ownerOf(s, at.owner)
	if err != nil {
		return Proof{}, false, err
	}
	for _, f := range []placed{{at.root, at.name, was.Key, keyMode, uid, gid}, {unitRoot, joinDropIn, was.Unit, 0o644, 0, 0}} {
		if same, err := f.there(s); err != nil || !same {
			return Proof{}, false, err
		}
	}
	state, err := s.Host.Systemd.State(ctx, slurmUnit)
	return Proof{Message: slurmUnit + " is " + state.Active}, err == nil && state.Active == "active", err
}

// join puts the key and the unit's file in place, and starts slurmd as a dynamic node that fetches its
// configuration from the controller.
func join(ctx context.Context, s *Step) (Proof, error) {
	err := s.Args.Secret("credential").Use(func(value []byte) error {
		var c taskcatalog.ClusterJoin
		defer func() { clear(c.Key) }()
		if json.Unmarshal(value, &c) != nil {
			return taskcatalog.Errorf(taskcatalog.CodeHandlerFailed, "the credential to join the cluster cannot be read")
		}
		return place(s, &c)
	})
	if err != nil {
		return Proof{}, err
	}
	return startSlurm(ctx, s)
}

// place writes the files, and keeps their digests.
func place(s *Step, c *taskcatalog.ClusterJoin) error {
	at, known := joinKeys[c.Auth]
	unit, err := unitFile(c, s.Args.Texts("labels"))
	switch {
	case err != nil:
		return err
	case !known || len(c.Key) == 0:
		return taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "cannot join: this agent does not know the way to authenticate, or has no key")
	}
	uid, gid, err := ownerOf(s, at.owner)
	if err != nil {
		return err
	}
	if err := writeFile(s, at.root, at.name, c.Key, keyMode, uid, gid); err != nil {
		return err
	}
	if err := writeFile(s, unitRoot, joinDropIn, unit, 0o644, 0, 0); err != nil {
		return err
	}
	raw, err := json.Marshal(joined{Auth: c.Auth, Key: digestText(c.Key), Unit: digestText(unit)})
	if err != nil {
		return err
	}
	return s.Checkpoint.Save(raw)
}

// unitFile is the addition to slurmd's unit. The condition of Debian's unit asks for a slurm.conf, which
// a node that fetches its configuration does not have.
func unitFile(c *taskcatalog.ClusterJoin, labels []string) ([]byte, error) {
	if !joinNode.MatchString(c.Node) || !joinController.MatchString(c.Controller) ||
		slices.ContainsFunc(labels, func(l string) bool { return !joinLabel.MatchString(l) }) {
		return nil, taskcatalog.Errorf(taskcatalog.CodePlanInvalid,
			"cannot join: the node's name, the controller or a label has a form that slurmd is not started with (labels have letters, digits, '.', '_' and '-')")
	}
	argv := "/usr/sbin/slurmd -D -Z -N " + c.Node + " --conf-server " + c.Controller
	if len(labels) > 0 {
		argv += " --conf Feature=" + strings.Join(labels, ",")
	}
	return []byte("[Unit]\nConditionPathExists=\n\n[Service]\nType=simple\nExecStart=\nExecStart=" + argv + "\n"), nil
}

// startSlurm restarts what reads the key, and slurmd, and looks at them then.
func startSlurm(ctx context.Context, s *Step) (Proof, error) {
	raw, err := s.Checkpoint.Load()
	var was joined
	if err == nil {
		err = json.Unmarshal(raw, &was)
	}
	if err == nil {
		err = s.Host.Systemd.Reload(ctx)
	}
	if err != nil {
		return Proof{}, err
	}
	for _, unit := range []string{joinKeys[was.Auth].unit, slurmUnit} {
		if unit == "" {
			continue
		}
		if err := s.Host.Systemd.Enable(ctx, unit); err != nil {
			return Proof{}, err
		}
		if err := s.Host.Systemd.Restart(ctx, unit); err != nil {
			return Proof{}, err
		}
	}
	proof, done, err := lookJoined(ctx, s)
	if err == nil && !done {
		err = taskcatalog.Errorf(CodeUnitState, "slurmd does not run after its start, or its files have changed (systemctl status %s says why)", slurmUnit)
	}
	return proof, err
}

// ownerOf finds an account of the node.
func ownerOf(s *Step, name string) (uid, gid uint32, err error) {
	users, err := s.Host.Machine.Users()
	if err != nil {
		return 0, 0, err
	}
	i := slices.IndexFunc(users, func(u machine.User) bool { return u.Name == name })
	if i < 0 {
		return 0, 0, taskcatalog.Errorf(command.CodeAccountUnknown,
			"cannot give the key to %s: the node has no such account (install slurmd and munge before)", name)
	}
	return users[i].UID, users[i].GID, nil
}

func digestText(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// placed is a file that the step put in place.
type placed struct {
	root, name, digest string
	mode, uid, gid     uint32
}

// there reports whether the file has this content, owner and mode.
func (p placed) there(s *Step) (bool, error) {
	below, err := s.Host.Machine.Below(p.root)
	if err != nil {
		return false, absent(err)
	}
	defer below.Close()
	f, err := below.Open(p.name)
	if err != nil {
		return false, absent(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid != p.uid || st.Gid != p.gid || st.Mode&0o7777 != p.mode || st.Size > maxRendered {
		return false, nil
	}
	var content bytes.Buffer
	defer func() { clear(content.Bytes()) }()
	if _, err := content.ReadFrom(f); err != nil {
		return false, err
	}
	return digestText(content.Bytes()) == p.digest, nil
}

// writeFile writes a file whole below a root, as file.render does.
func writeFile(s *Step, root, name string, content []byte, mode, uid, gid uint32) error {
	below, err := s.Host.Machine.MakeBelow(root)
	if err != nil {
		return noLink(fmt.Errorf("cannot open %s: %w", root, err))
	}
	defer below.Close()
	if err := below.Write(name, content, mode, int(uid), int(gid)); err != nil {
		return noLink(fmt.Errorf("cannot write %s below %s: %w", name, root, err))
	}
	return nil
}
