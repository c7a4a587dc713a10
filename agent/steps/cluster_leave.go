package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// CodeStillMember: the node has left the cluster, and the cluster has it again.
const CodeStillMember taskcatalog.Code = "still_member"

// leavePause is the pause between two questions to the broker.
const leavePause = 15 * time.Second

// leave takes the node out of a cluster. The broker has the cluster drain the node, and forget it when
// nothing runs on it any more. Only then the node's program ends and its keys go, so that no work is cut
// off. A program that still runs could come back to the cluster, so the broker is asked once more at the
// end.
func leave(ctx context.Context, s *Step) (Proof, error) {
	on := clusterNodes[s.Args.Text("cluster")]
	cut, err := letGo(ctx, s, on)
	if err != nil {
		return Proof{}, err
	}
	s.Progress(80, "stops "+on.program)
	ended, err := on.end(ctx, s)
	if err != nil {
		return Proof{}, err
	}
	is, err := askCluster(ctx, s)
	if err == nil && is.State != taskcatalog.ClusterAbsent {
		err = taskcatalog.Errorf(CodeStillMember, "%s, although it had forgotten the node", clusterSays(s, is))
	}
	if err != nil {
		return Proof{}, err
	}
	return Proof{Message: clusterSays(s, is) + "; " + ended + cut.says()}, nil
}

// letGo waits until the cluster says that it has no such node. It fails if the node has a membership of
// another cluster. Where the node itself has to ask the cluster for no further work, it does so once for
// each id that the cluster has of it.
func letGo(ctx context.Context, s *Step, on clusterNode) (cut cutOff, err error) {
	raw, err := s.Checkpoint.Load()
	if err != nil {
		return cut, err
	}
	if raw != nil && (json.Unmarshal(raw, &cut) != nil || len(cut.Names) > maxCutNames) {
		cut = cutOff{} // it cannot be read: the names are in the audit log, and the cluster is asked all the same
	}
	told := ""
	for {
		is, err := askCluster(ctx, s)
		if err == nil {
			err = cut.add(s, is.Cut)
		}
		if err != nil {
			return cut, err
		}
		if is.State == taskcatalog.ClusterAbsent {
			return cut, ownMembership(ctx, s, on, is)
		}
		if on.drain != nil && is.State == taskcatalog.ClusterMember && (told == "" || is.ID != told) {
			err := ownMembership(ctx, s, on, is)
			if err == nil {
				err = on.drain(ctx, s, is.ID)
			}
			if err != nil {
				return cut, err
			}
			told = is.ID
		}
		says := clusterSays(s, is)
		if told != "" {
			says += ", and the node has told it to give no further work"
		}
		s.Progress(0, "waits for the cluster: "+says)
		if err := host.Wait(ctx, leavePause); err != nil {
			return cut, fmt.Errorf("%s: %w", says, err)
		}
	}
}

// cutOff is the checkpoint of a leave: the work that the cluster has cut off for it. The first names are
// kept; the audit log has all.
type cutOff struct {
	Names []string `json:"names"`
	All   int      `json:"all"`
}

// maxCutNames bounds the names of work that was cut off.
const maxCutNames = 8

func (c *cutOff) add(s *Step, names []string) error {
	if len(names) == 0 {
		return nil
	}
	c.All += len(names)
	for _, name := range names[:min(len(names), maxCutNames-len(c.Names))] {
		c.Names = append(c.Names, taskcatalog.Clean(name, 100))
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.Checkpoint.Save(raw)
}

// says tells what was cut off; empty: nothing was.
func (c *cutOff) says() string {
	if c.All == 0 {
		return ""
	}
	return fmt.Sprintf("; cut off: %d (%s)", c.All, strings.Join(c.Names, ", "))
}

// endUnit stops a unit, looks whether it has ended, and keeps it from the next start of the machine. A
// unit without a file is not installed.
func endUnit(ctx context.Context, s *Step, unit string) error {
	if err := s.Host.Systemd.Stop(ctx, unit); err != nil {
		return err
	}
	state, err := s.Host.Systemd.State(ctx, unit)
	if err != nil {
		return err
	}
	if state.Active != "inactive" && state.Active != "failed" {
		return taskcatalog.Errorf(CodeUnitState, "%s is %s after its stop (systemctl status %s says why)", unit, taskcatalog.Clean(state.Active, 32), unit)
	}
	file, _, err := s.Host.Systemd.Files(ctx, unit)
	if err != nil || file == "" {
		return err
	}
	return s.Host.Systemd.Disable(ctx, unit)
}

// removeBelow removes a file below a root, and looks whether it is gone.
func removeBelow(s *Step, root, name string) error {
	below, err := s.Host.Machine.Below(root)
	if err != nil {
		return noLink(absent(err))
	}
	defer below.Close()
	if err := below.Remove(name); err != nil {
		return noLink(fmt.Errorf("cannot remove %s below %s: %w", name, root, err))
	}
	f, err := below.Open(name)
	if err == nil {
		_ = f.Close()
		return taskcatalog.Errorf(taskcatalog.CodeHandlerFailed, "%s below %s is there again after it was removed", name, root)
	}
	return absent(err)
}
