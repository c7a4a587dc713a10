package steps

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
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

// The forms of what goes into the unit's file beside joinNode.
var (
	joinController = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9.-]{0,252}:[1-9][0-9]{0,4}$`)
	joinLabel      = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// joined is the checkpoint of a join: digests of what it put in place. A look has no credential.
type joined struct {
	Auth string `json:"auth"`
	Key  string `json:"key"`
	Unit string `json:"unit"`
}

// heldSlurm returns the membership that the unit's file has.
func heldSlurm(_ context.Context, s *Step) (held, error) {
	return heldByUnit(s, joinDropIn, "--conf-server ", "-N ")
}

// lookSlurm reports whether the key and the unit's file are those that the step put in place, and
// slurmd runs.
func lookSlurm(ctx context.Context, s *Step) (Proof, bool, error) {
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

// joinSlurm puts the key and the unit's file in place, and starts slurmd as a dynamic node that fetches
// its configuration from the controller. A node of another controller is left alone.
func joinSlurm(ctx context.Context, s *Step, c *taskcatalog.ClusterJoin) (Proof, error) {
	if err := place(ctx, s, c); err != nil {
		return Proof{}, err
	}
	return startSlurm(ctx, s)
}

// place writes the files, and keeps their digests.
func place(ctx context.Context, s *Step, c *taskcatalog.ClusterJoin) error {
	at, known := joinKeys[c.Auth]
	unit, err := unitFile(c, s.Args.Texts("labels"))
	switch {
	case err != nil:
		return err
	case !known || len(c.Key) == 0:
		return taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "cannot join: this agent does not know the way to authenticate, or has no key")
	}
	if err := noOther(ctx, s, heldSlurm, c, "slurm.node.leave"); err != nil {
		return err
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
	proof, done, err := lookSlurm(ctx, s)
	if err == nil && !done {
		err = taskcatalog.Errorf(CodeUnitState, "slurmd does not run after its start, or its files have changed (systemctl status %s says why)", slurmUnit)
	}
	return proof, err
}

// endSlurm ends slurmd and what reads the keys, and removes the keys and the unit's file. It leaves the
// packages.
func endSlurm(ctx context.Context, s *Step) (string, error) {
	for _, unit := range joinUnits() {
		if err := endUnit(ctx, s, unit); err != nil {
			return "", err
		}
	}
	if err := removeBelow(s, unitRoot, joinDropIn); err != nil {
		return "", err
	}
	for _, at := range joinKeys {
		if err := removeBelow(s, at.root, at.name); err != nil {
			return "", err
		}
	}
	return slurmUnit + " has ended, and no key of a cluster is there", s.Host.Systemd.Reload(ctx)
}

// joinUnits are the units that use a key of a cluster, slurmd first.
func joinUnits() []string {
	units := []string{slurmUnit}
	for _, at := range joinKeys {
		if at.unit != "" {
			units = append(units, at.unit)
		}
	}
	return units
}
