package steps

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// clusterNode is what a kind of cluster has on its nodes.
type clusterNode struct {
	program string // what makes the node a member, for people
	// environment: the program is in a Python environment, which the join names.
	environment bool
	// look reports whether what join put in place is there, and the program runs.
	look func(ctx context.Context, s *Step) (Proof, bool, error)
	join func(ctx context.Context, s *Step, c *taskcatalog.ClusterJoin) (Proof, error)
	// settle does what a join that was cut off has not done, although look finds it done; nil: there is nothing.
	settle func(ctx context.Context, s *Step) error
	// drain has the node itself tell the cluster to give it no further work; nil: the broker does that.
	drain func(ctx context.Context, s *Step, id string) error
	// has returns the membership that the node has, of whatever cluster.
	has func(ctx context.Context, s *Step) (held, error)
	// end ends the program and removes what join put in place. It returns what then holds, for people.
	end func(ctx context.Context, s *Step) (string, error)
}

// clusterNodes has a line and a file each kind of cluster.
var clusterNodes = map[string]clusterNode{
	"k8s":   {program: "kubelet", look: lookK8s, join: joinK8s, settle: settleK8s, has: heldK8s, end: endK8s},
	"ray":   {program: "Ray", environment: true, look: lookRay, join: joinRay, drain: drainRay, has: heldRay, end: endRay},
	"slurm": {program: "slurmd", look: lookSlurm, join: joinSlurm, has: heldSlurm, end: endSlurm},
}

// joinNode is the form of a node's name in a cluster: nothing that a file of a unit would expand, quote
// or split.
var joinNode = lazyregexp.New(`^[a-z0-9][a-z0-9.-]{0,62}$`)

// nodeMark is the form of the value of a label that says which node a record of a cluster is of.
var nodeMark = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// marked returns labels with the one by which the cluster's record says that it is of this node. An older
// broker gives no id, and asks for no such label.
func marked(c *taskcatalog.ClusterJoin, labels []string) ([]string, error) {
	switch {
	case slices.ContainsFunc(labels, func(l string) bool { return strings.HasPrefix(l, "hostler.dev/") }):
		return nil, taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "cannot join: a label is of hostler.dev, which are for Hostler itself to set")
	case c.ID == "":
		return labels, nil
	case !nodeMark.MatchString(c.ID):
		return nil, taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "cannot join: the broker's answer has an id of the node that is no value of a label")
	}
	return append(slices.Clone(labels), taskcatalog.ClusterNodeLabel+"="+c.ID), nil
}

// checkCluster judges a planned join or leave.
func checkCluster(s *taskcatalog.PlannedStep) error {
	backend, _ := s.With["cluster"].Literal.(string)
	on, known := clusterNodes[backend]
	_, has := s.With["environment"]
	switch {
	case !known:
		return fmt.Errorf("is for a cluster of %s, and this agent knows %s alone",
			taskcatalog.Clean(backend, 32), strings.Join(slices.Sorted(maps.Keys(clusterNodes)), " and "))
	case backend != "k8s" && (s.With["taints"].Literal != nil || s.With["kubelet"].Literal != nil || s.With["kubelet"].From != ""):
		return fmt.Errorf("is for a cluster of %s, and the arguments taints and kubelet are for k8s alone", backend)
	case s.Kind == "cluster.join" && has != on.environment:
		return fmt.Errorf("joins a cluster of %s, and the argument environment is for Ray alone, which needs it", backend)
	}
	return nil
}

// lookJoined reports whether the node still has what it joined with. Whether the cluster has taken the
// node is for cluster.verify to say.
func lookJoined(ctx context.Context, s *Step) (Proof, bool, error) {
	return clusterNodes[s.Args.Text("cluster")].look(ctx, s)
}

// join makes the node a member by the credential.
func join(ctx context.Context, s *Step) (proof Proof, err error) {
	err = s.Args.Secret("credential").Use(func(value []byte) (err error) {
		var c taskcatalog.ClusterJoin
		defer func() { clear(c.Key) }()
		if json.Unmarshal(value, &c) != nil {
			return taskcatalog.Errorf(taskcatalog.CodeHandlerFailed, "the credential to join the cluster cannot be read")
		}
		proof, err = clusterNodes[s.Args.Text("cluster")].join(ctx, s, &c)
		return err
	})
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
