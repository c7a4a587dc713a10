package steps

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Ray runs as two units that the step writes: the node itself, and its order to the cluster to give it no
// further work. Both run as an account that systemd lends them, because what they run comes from a Python
// index. The token is a file of root's, which systemd hands to them.
const (
	rayUnit      = "hostler-ray.service"
	rayDrainUnit = "hostler-ray-drain@.service" // for an id of Ray's
	// rayRoot and rayToken are where the token is.
	rayRoot, rayToken = "/etc/ray", "auth_token"
	rayTokenMode      = 0o400
	// minRayToken and maxRayToken are the sizes of a token, in bytes.
	minRayToken, maxRayToken = 32, 1024
)

var (
	rayLabel       = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?=[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	rayEnvironment = lazyregexp.New(`^(/[A-Za-z0-9+_-][A-Za-z0-9._+-]*)+$`)
	rayTokenForm   = lazyregexp.New(`^[!-~]+$`)
	rayID          = lazyregexp.New(`^[0-9a-f]{56}$`)
)

// joinedRay is the checkpoint of a join: digests of what it put in place.
type joinedRay struct {
	Token string `json:"token"`
	Unit  string `json:"unit"`
	Drain string `json:"drain"`
}

// files are the files that the join put in place.
func (j joinedRay) files() []placed {
	return []placed{
		{rayRoot, rayToken, j.Token, rayTokenMode, 0, 0},
		{unitRoot, rayUnit, j.Unit, 0o644, 0, 0},
		{unitRoot, rayDrainUnit, j.Drain, 0o644, 0, 0},
	}
}

// heldRay returns the membership that the unit has.
func heldRay(_ context.Context, s *Step) (held, error) {
	return heldByUnit(s, rayUnit, "--address=", "--node-name=")
}

// lookRay reports whether the token and the units are those that the step put in place, and Ray runs.
func lookRay(ctx context.Context, s *Step) (Proof, bool, error) {
	raw, err := s.Checkpoint.Load()
	var was joinedRay
	if err != nil || raw == nil || json.Unmarshal(raw, &was) != nil {
		return Proof{}, false, err
	}
	for _, f := range was.files() {
		if same, err := f.there(s); err != nil || !same {
			return Proof{}, false, err
		}
	}
	state, err := s.Host.Systemd.State(ctx, rayUnit)
	return Proof{Message: rayUnit + " is " + state.Active}, err == nil && state.Active == "active", err
}

// joinRay puts the token and the units in place, and starts Ray as a node of the head. A node of
// another head is left alone.
func joinRay(ctx context.Context, s *Step, c *taskcatalog.ClusterJoin) (Proof, error) {
	groups, err := deviceGroups(s)
	if err != nil {
		return Proof{}, err
	}
	environment, labels := s.Args.Text("environment"), s.Args.Texts("labels")
	if err := checkRay(c, environment, labels); err != nil {
		return Proof{}, err
	}
	if labels, err = marked(c, labels); err != nil {
		return Proof{}, err
	}
	if err := noOther(ctx, s, heldRay, c, "ray.node.leave"); err != nil {
		return Proof{}, err
	}
	unit, drain := rayService(c, environment, labels, groups), rayDrainService(c, environment)
	for _, f := range []struct {
		root, name string
		content    []byte
		mode       uint32
	}{{rayRoot, rayToken, c.Key, rayTokenMode}, {unitRoot, rayUnit, unit, 0o644}, {unitRoot, rayDrainUnit, drain, 0o644}} {
		if err := writeFile(s, f.root, f.name, f.content, f.mode, 0, 0); err != nil {
			return Proof{}, err
		}
	}
	raw, err := json.Marshal(joinedRay{Token: digestText(c.Key), Unit: digestText(unit), Drain: digestText(drain)})
	if err == nil {
		err = s.Checkpoint.Save(raw)
	}
	if err != nil {
		return Proof{}, err
	}
	return startRay(ctx, s)
}

// startRay starts the unit anew, and looks at it then.
func startRay(ctx context.Context, s *Step) (Proof, error) {
	if err := s.Host.Systemd.Reload(ctx); err != nil {
		return Proof{}, err
	}
	if err := s.Host.Systemd.Enable(ctx, rayUnit); err != nil {
		return Proof{}, err
	}
	if err := s.Host.Systemd.Restart(ctx, rayUnit); err != nil {
		return Proof{}, err
	}
	proof, done, err := lookRay(ctx, s)
	if err == nil && !done {
		err = taskcatalog.Errorf(CodeUnitState,
			"Ray does not run after its start, or its files have changed (systemctl status %s says why)", rayUnit)
	}
	return proof, err
}

// checkRay refuses what a unit would expand, quote or split, and a token that Ray would read in part.
func checkRay(c *taskcatalog.ClusterJoin, environment string, labels []string) error {
	refuse := func(why string) error {
		return taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "cannot join: %s", why)
	}
	switch {
	case c.Auth != "token" || len(c.Key) < minRayToken || len(c.Key) > maxRayToken || !rayTokenForm.Match(c.Key):
		return refuse("this agent does not know the way to authenticate, or the token is not one line of 32 to 1024 visible characters")
	case !joinNode.MatchString(c.Node) || !joinController.MatchString(c.Controller):
		return refuse("the node's name or the address of the head has a form that Ray is not started with")
	case !rayEnvironment.MatchString(environment):
		return refuse("the path of the environment has a form that Ray is not started from")
	case slices.ContainsFunc(labels, func(l string) bool { return !rayLabel.MatchString(l) }):
		return refuse("a label is not KEY=VALUE of letters, digits, '.', '_' and '-' that begin and end with a letter or digit")
	}
	return nil
}

// deviceGroups are the groups of the node that may open its GPUs, beside those that everybody may open.
func deviceGroups(s *Step) (names []string, err error) {
	groups, err := s.Host.Machine.Groups()
	for _, g := range groups {
		if name, _, _ := strings.Cut(g, ":"); name == "render" || name == "video" {
			names = append(names, name)
		}
	}
	return names, err
}

// rayAccount is the part of both units that says who they are, and how they know the token.
func rayAccount(environment string) string {
	return "DynamicUser=yes\nUser=hostler-ray\nLoadCredential=auth_token:" + rayRoot + "/" + rayToken + "\n" +
		"Environment=PATH=" + environment + "/bin:/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 PYTHONNOUSERSITE=1\n" +
		"Environment=RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=%d/auth_token RAY_USAGE_STATS_ENABLED=0\nWorkingDirectory=/tmp\n"
}

// rayService is the unit of the node. Ray ends its workers by itself when memory is short.
func rayService(c *taskcatalog.ClusterJoin, environment string, labels, groups []string) []byte {
	argv := environment + "/bin/ray start --block --address=" + c.Controller + " --node-name=" + c.Node
	if len(labels) > 0 {
		argv += " --labels=" + strings.Join(labels, ",")
	}
	account := rayAccount(environment)
	if len(groups) > 0 {
		account += "SupplementaryGroups=" + strings.Join(groups, " ") + "\n"
	}
	return []byte("[Unit]\nDescription=Ray node\nWants=network-online.target\nAfter=network-online.target\n\n" +
		"[Service]\nType=exec\n" + account + "ExecStart=" + argv + "\nRestart=on-failure\nRestartSec=15\nOOMPolicy=continue\n" +
		"LimitNOFILE=1048576\nLimitMEMLOCK=infinity\nTasksMax=infinity\n\n[Install]\nWantedBy=multi-user.target\n")
}

// rayDrainService is the unit of the order. The dashboard takes none, and Ray rejects no order with this
// reason. Without a deadline Ray ends no work.
func rayDrainService(c *taskcatalog.ClusterJoin, environment string) []byte {
	return []byte("[Unit]\nDescription=Order to give Ray node %i no further work\n\n[Service]\nType=oneshot\n" + rayAccount(environment) +
		"ExecStart=" + environment + "/bin/ray drain-node --address=" + c.Controller +
		" --node-id=%i --reason=DRAIN_NODE_REASON_PREEMPTION --reason-message=hostler\nTimeoutStartSec=60\n")
}

// drainRay tells the cluster to give the node no further work.
func drainRay(ctx context.Context, s *Step, id string) error {
	if !rayID.MatchString(id) {
		return taskcatalog.Errorf(taskcatalog.CodeHandlerFailed,
			"cannot tell the cluster to give the node no further work: the broker's answer has no id of Ray")
	}
	unit := strings.Replace(rayDrainUnit, "@", "@"+id, 1)
	if err := s.Host.Systemd.Start(ctx, unit); err != nil {
		return taskcatalog.Errorf(CodeUnitState,
			"cannot tell the cluster to give the node no further work: %v (journalctl --unit=%s says why)", err, unit)
	}
	return nil
}

// endRay ends Ray, and removes the token and the units. It leaves the environment.
func endRay(ctx context.Context, s *Step) (string, error) {
	if err := endUnit(ctx, s, rayUnit); err != nil {
		return "", err
	}
	for _, f := range (joinedRay{}).files() {
		if err := removeBelow(s, f.root, f.name); err != nil {
			return "", err
		}
	}
	return rayUnit + " has ended, and no token of a cluster is there", s.Host.Systemd.Reload(ctx)
}
