package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// ContainerRoots are the directories in which container engines keep containers, images and
// volumes. A cleanup stops the engine and empties the roots completely. The engine's own account of
// ownership is not trusted, since a tenant could reach the engine. Images of the baseline are
// pulled again.
var ContainerRoots = []string{
	"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/machines", "/var/lib/lxc",
	"/var/lib/lxd/containers", "/var/lib/kubelet/pods",
}

// containerUnits are the engines' units in stop order: a socket before the service that the socket
// would start again, a unit before the units that it uses.
var containerUnits = []string{
	"kubelet.service", "docker.socket", "docker.service", "podman.socket", "podman.service", "lxd.socket",
	"lxd.service", "crio.service", "containerd.service",
}

// ContainerStates are the directories in which engines and runtimes keep the state of running
// containers: settings, mounts and sockets.
var ContainerStates = []string{
	"/run/containerd/io.containerd.runtime.v2.task/*", "/run/containerd/runc/*", "/run/containerd/fifo", "/run/docker/runtime-runc/*",
	"/run/docker/containerd",
	"/run/containers/storage", "/run/libpod", "/run/crun", "/run/runc",
}

const startTime = 90 * time.Second

// containers stops the engines, ends processes in containers, empties the roots, and starts every
// engine that ran or is enabled. So an engine left stopped by a crash starts again with the next
// run.
func (c *cleanup) containers(ctx context.Context) (err error) {
	roots, units := slices.Clone(ContainerRoots), slices.Clone(containerUnits)
	for _, root := range slices.Sorted(maps.Keys(c.Host.ContainerRoots)) {
		roots = append(roots, root)
		if unit := c.Host.ContainerRoots[root]; unit != "" && !slices.Contains(units, unit) {
			units = append(units, unit)
		}
	}
	roots = slices.DeleteFunc(roots, func(root string) bool {
		_, err := c.m.Lstat(root)
		return errors.Is(err, fs.ErrNotExist)
	})
	if len(roots) == 0 {
		return nil
	}
	var start []string
	defer func() {
		// Start the engines even if the task was cancelled: a node without its engine is broken.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTime)
		defer cancel()
		slices.Reverse(start)
		for _, unit := range start {
			if failed := c.Host.Systemd.Start(ctx, unit); failed != nil {
				c.failed("containers", unit, failed)
			}
		}
	}()
	if active, failed := c.Host.Systemd.Active(ctx, DockerUnit); failed == nil && active {
		if failed := c.dockerCleanup(ctx); failed != nil {
			c.skip("containers", DockerUnit, "the container engine did not remove its containers and networks: "+failed.Error())
		}
	}
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
	stopped, left, err := c.stopContainers(ctx)
	if stopped > 0 {
		c.dispose("containers", "processes", taskcatalog.ActionRemoved, machine.Tally{Files: int64(stopped)},
			"processes in containers were stopped")
	}
	for _, p := range left {
		c.failed("containers", fmt.Sprintf("process %d %s", p.PID, p.Name), errors.New("outlived SIGKILL, state "+p.State))
	}
	for _, pattern := range ContainerStates {
		states, failed := c.m.Glob(pattern)
		roots, err = append(roots, states...), errors.Join(err, failed)
	}
	for _, root := range roots {
		if to, link := c.linked(root); link {
			c.linkedRoot(root, to)
			continue
		}
		if failed := c.empty(ctx, "containers", root, machine.Tree{Remove: machine.AllEntries}); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		err = errors.Join(err, c.emptyMounted(ctx, root))
	}
	return err
}

// emptyMounted empties the baseline's mounts inside a root: a separate disk for volumes, or
// podman's mount of its layers onto themselves. The mounts stay. The root is swept first: by then a
// tenant's mounts in the root, and over these mounts, are detached.
func (c *cleanup) emptyMounted(ctx context.Context, root string) error {
	mounts, err := c.m.Mounts()
	if err != nil {
		return err
	}
	strangers := c.known.Foreign(mounts)
	var all error
	for _, inner := range machine.Inside(mounts, root) {
		if inner.Local() && !slices.Contains(strangers, inner) {
			all = errors.Join(all, c.empty(ctx, "containers", inner.Point, machine.Tree{Remove: machine.AllEntries}))
		}
	}
	return all
}

// linked reports whether a root is a link, and returns the link's target.
func (c *cleanup) linked(root string) (to string, link bool) {
	st, err := c.m.Lstat(root)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", false
	}
	to, err = c.m.Readlink(root)
	if err != nil {
		return "", true
	}
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(root), to)
	}
	return path.Clean(to), true
}

// linkedRoot reports a root that is a link, for example because the root was moved to a larger
// disk. A link is never followed, whoever created it: a tenant's link could lead anywhere. The
// target is emptied only if the node's own configuration names it.
func (c *cleanup) linkedRoot(root, to string) {
	if _, configured := c.Host.ContainerRoots[to]; configured {
		c.skip("containers", root, "a link to "+to+", which is emptied as a configured root")
		return
	}
	c.failed("containers", root,
		fmt.Errorf("a link to %s, which the cleanup does not follow (if the node's engine keeps its root there, add %s to container_roots in the agent's configuration; otherwise remove the link)", to, to))
}

// stopContainers ends the processes in containers, then their watchers. The watcher conmon notices
// the end of its container and has podman or CRI-O remove the container's network. Nobody else
// knows which firewall rules belonged to the container.
func (c *cleanup) stopContainers(ctx context.Context) (stopped int, left []machine.Process, err error) {
	inside, watching, err := c.inContainers()
	if err != nil {
		return 0, nil, fmt.Errorf("cannot list containers: %w", err)
	}
	const grace = 2 * time.Second
	stopped, left, err = c.m.StopProcesses(ctx, func(p machine.Process) bool { return inside(p) && !watching(p) }, grace, c.killContainers)
	if err != nil {
		return stopped, left, err
	}
	waitCtx, cancel := context.WithTimeout(ctx, takeDownTime)
	defer cancel()
	for waitCtx.Err() == nil {
		all, err := c.m.Processes()
		if err != nil {
			return stopped, left, err
		}
		if !slices.ContainsFunc(all, func(p machine.Process) bool { return p.State != "Z" && p.Name == conmon && watching(p) }) {
			break
		}
		_ = host.Wait(waitCtx, 100*time.Millisecond)
	}
	more, left, err := c.m.StopProcesses(ctx, inside, grace, c.killContainers)
	return stopped + more, left, err
}

// killContainers kills every process in the container cgroups of the processes left. No list shows
// a process that forks and ends at once.
func (c *cleanup) killContainers(left []machine.Process) error {
	killed := map[string]bool{}
	for _, p := range left {
		group, err := c.m.Cgroup(p.PID)
		if err != nil {
			continue
		}
		parts := strings.Split(group, "/")
		i := slices.IndexFunc(parts, containerCgroup.MatchString)
		if i < 0 {
			continue
		}
		if of := strings.Join(parts[:i+1], "/"); !killed[of] {
			killed[of] = true
			if err := c.m.KillCgroup(of); err != nil {
				return err
			}
		}
	}
	return nil
}

// enabled reports whether a unit starts at boot, by its link in a target's .wants directory.
func enabled(m *machine.Machine, unit string) bool {
	for _, target := range []string{"multi-user.target.wants", "sockets.target.wants"} {
		names, err := m.Names(path.Join("/etc/systemd/system", target))
		if err == nil && slices.Contains(names, unit) {
			return true
		}
	}
	return false
}

// containerCgroup matches the part of a cgroup path that an engine creates for a container,
// watcherCgroup the part for the container's watcher.
var (
	containerCgroup = lazyregexp.New(`^((docker|libpod|cri-containerd|crio|nerdctl)-)?[0-9a-f]{64}(\.scope)?$`)
	watcherCgroup   = lazyregexp.New(`^(libpod|crio)-conmon-[0-9a-f]{64}\.scope$`)
)

// Contained reports whether a cgroup's name is that of a container or of a container's watcher.
func Contained(cgroup string) bool {
	return slices.ContainsFunc(strings.Split(cgroup, "/"), func(part string) bool {
		return containerCgroup.MatchString(part) || watcherCgroup.MatchString(part)
	})
}

// ContainerUnit reports whether a file is systemd's own unit file of a container's scope. The file
// disappears with the container.
func ContainerUnit(file string) bool {
	rest, transient := strings.CutPrefix(file, "/run/systemd/transient/")
	unit, _, _ := strings.Cut(rest, "/")
	return transient && Contained(strings.TrimSuffix(unit, ".d"))
}

// ownCgroup matches a cgroup outside systemd's tree, as a runtime creates if nobody names one. Only
// such a cgroup counts as the container's: a forged watcher could have a child in sshd's cgroup.
var ownCgroup = lazyregexp.New(`^/[^./]+/`)

const conmon = "conmon"

// watches reports whether a process is a watcher: an engine leaves a watcher beside each container,
// to outlive the engine.
func (c *cleanup) watches(p machine.Process) bool {
	if !strings.HasPrefix(p.Name, "containerd-shim") && p.Name != conmon {
		return false
	}
	exe, err := c.m.Exe(p.PID)
	return err == nil && strings.HasPrefix(exe, "/usr/")
}

// inContainers returns two functions: inside reports whether a process runs in a container or
// watches one, and watching reports whether a process is a watcher. Not every container has a
// cgroup with a known name. Therefore a watcher's descendants count as inside too, and so does
// every process in a descendant's cgroup, even after the watcher has ended.
func (c *cleanup) inContainers() (inside, watching func(machine.Process) bool, err error) {
	all, err := c.m.Processes()
	if err != nil {
		return nil, nil, err
	}
	type name struct {
		pid   int
		start uint64
	}
	parents, watchers := map[int]int{}, map[int]string{} // parent by pid; cgroup of each watcher by pid
	for _, p := range all {
		parents[p.PID] = p.PPID
		if c.watches(p) {
			watchers[p.PID], _ = c.m.Cgroup(p.PID)
		}
	}
	started, groups := map[name]bool{}, map[string]bool{}
	for _, p := range all {
		above := p.PPID
		for range len(all) { // a reused pid could close a circle
			if _, found := watchers[above]; found || above == 0 {
				break
			}
			above = parents[above]
		}
		own, watched := watchers[above]
		if !watched {
			continue
		}
		started[name{p.PID, p.Start}] = true
		if group, err := c.m.Cgroup(p.PID); err == nil && group != own && ownCgroup.MatchString(group) {
			groups[group] = true
		}
	}
	watching = func(p machine.Process) bool {
		if c.watches(p) {
			return true
		}
		group, err := c.m.Cgroup(p.PID)
		return err == nil && watcherCgroup.MatchString(path.Base(group))
	}
	inside = func(p machine.Process) bool {
		if started[name{p.PID, p.Start}] || watching(p) {
			return true
		}
		group, err := c.m.Cgroup(p.PID)
		return err == nil && (Contained(group) || groups[group])
	}
	return inside, watching, nil
}
