package tasks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// containerRoots are where container engines keep containers, images and
// volumes. They are emptied as a whole, with the engine stopped: to trust the
// engine's own word on what is whose is to trust what a tenant could reach.
// Images that the baseline has are pulled again.
var containerRoots = []string{"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/machines", "/var/lib/lxc", "/var/lib/lxd/containers", "/var/lib/kubelet/pods"}

// containerUnits are the engines' units, in the order in which they are
// stopped: a socket before what it would start again, a user before what it
// uses.
var containerUnits = []string{"kubelet.service", "docker.socket", "docker.service", "podman.socket", "podman.service", "lxd.socket", "lxd.service", "containerd.service"}

// containerTasks is where containerd keeps what runs, by namespace.
const containerTasks = "/run/containerd/io.containerd.runtime.v2.task/*"

const startTime = 90 * time.Second

// containers stops the engines, ends what still runs in a container, empties
// the roots and starts the engines that ran or are enabled: one that a crash
// in the middle left stopped comes back with the next run.
func (c *cleanup) containers(ctx context.Context) (err error) {
	roots, units := slices.Clone(containerRoots), slices.Clone(containerUnits)
	for _, root := range slices.Sorted(maps.Keys(c.Host.ContainerRoots)) {
		roots = append(roots, root)
		if unit := c.Host.ContainerRoots[root]; unit != "" && !slices.Contains(units, unit) {
			units = append(units, unit)
		}
	}
	roots = slices.DeleteFunc(roots, func(root string) bool {
		_, err := c.m.Lstat(root)
		return err != nil && absent(err)
	})
	if len(roots) == 0 {
		return nil
	}
	var start []string
	defer func() {
		// Even when the task was cancelled: a node without its engine is broken.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTime)
		defer cancel()
		slices.Reverse(start)
		for _, unit := range start {
			if failed := c.Host.Systemd.Start(ctx, unit); failed != nil {
				c.failed("containers", unit, failed)
			}
		}
	}()
	for _, unit := range units {
		active, failed := c.Host.Systemd.Active(ctx, unit)
		if failed != nil {
			return fmt.Errorf("cannot empty container roots: %w", failed)
		}
		if active || enabled(c.m, unit) {
			start = append(start, unit)
		}
		if !active {
			continue
		}
		if failed := c.Host.Systemd.Stop(ctx, unit); failed != nil {
			return fmt.Errorf("cannot empty container roots while %s runs: %w", unit, failed)
		}
	}
	stopped, left, err := c.m.StopProcesses(ctx, c.inContainer, 2*time.Second)
	if stopped > 0 {
		c.dispose("containers", "processes", taskcatalog.ActionRemoved, machine.Tally{Files: int64(stopped)}, "processes in containers were stopped")
	}
	for _, p := range left {
		c.failed("containers", fmt.Sprintf("process %d %s", p.PID, p.Name), errors.New("outlived SIGKILL, state "+p.State))
	}
	tasks, globErr := c.m.Glob(containerTasks)
	err = errors.Join(err, globErr)
	for _, root := range slices.Concat(roots, tasks) {
		err = errors.Join(err, c.empty(ctx, "containers", root, machine.Tree{Remove: everything}))
	}
	return err
}

// enabled reports whether a unit is started at boot, by the link that says so.
func enabled(m *machine.Machine, unit string) bool {
	for _, target := range []string{"multi-user.target.wants", "sockets.target.wants"} {
		names, err := m.Names(path.Join("/etc/systemd/system", target))
		if err == nil && slices.Contains(names, unit) {
			return true
		}
	}
	return false
}

// containerCgroup is the part of a cgroup's path that an engine makes for one
// container.
var containerCgroup = regexp.MustCompile(`^((docker|libpod|cri-containerd|crio|nerdctl)-)?[0-9a-f]{64}(\.scope)?$`)

// inContainer reports whether a process runs in a container or watches one.
func (c *cleanup) inContainer(p machine.Process) bool {
	if strings.HasPrefix(p.Name, "containerd-shim") || p.Name == "conmon" {
		exe, err := c.m.Exe(p.PID)
		return err == nil && strings.HasPrefix(exe, "/usr/")
	}
	group, err := c.m.Cgroup(p.PID)
	return err == nil && slices.ContainsFunc(strings.Split(group, "/"), containerCgroup.MatchString)
}
