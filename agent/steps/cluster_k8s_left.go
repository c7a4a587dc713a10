package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// CodePodsLeft: the node has left, and something of its pods is still there.
const CodePodsLeft taskcatalog.Code = "pods_left"

const (
	// kubeletRoot is where kubelet mounts the volumes of pods.
	kubeletRoot = "/var/lib/kubelet"
	// podTasks has a directory for each container of a pod that containerd still has.
	podTasks = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
	// podNetwork is how network plugins begin the name of a pod's network namespace.
	podNetwork = "cni-"
	// podSlice is how kubelet begins the name of the group of all pods, by either driver of cgroups.
	podSlice = "kubepods"

	// podsPause and podsPatience are how often and how long the step looks: a runtime ends its containers by and by.
	podsPause, podsPatience = 3 * time.Second, time.Minute
	maxPodsLeft             = 6
)

// podsEnd waits until nothing of the node's pods is left. kubeadm resets a node also if the runtime does not
// answer: it warns of that alone, and containers go on. Neither does it unmount what is busy.
func podsEnd(ctx context.Context, s *Step) error {
	for waited := time.Duration(0); ; waited += podsPause {
		left, err := podsLeft(s)
		if err != nil || len(left) == 0 {
			return err
		}
		if waited >= podsPatience {
			all := len(left)
			return taskcatalog.Errorf(CodePodsLeft, "kubelet has ended, and %d things of its pods are still there: %s "+
				"(systemctl status containerd says whether the runtime hangs; restart it or the machine, and retry)",
				all, strings.Join(left[:min(all, maxPodsLeft)], ", "))
		}
		s.Progress(0, "waits for the end of "+left[0])
		if err := host.Wait(ctx, podsPause); err != nil {
			return err
		}
	}
}

// podsLeft lists what is left of pods: processes, containers that the runtime has, mounts and networks.
func podsLeft(s *Step) (left []string, err error) {
	m := s.Host.Machine
	running, err := podProcesses(m)
	if err != nil {
		return nil, err
	}
	tasks, err := m.Names(podTasks)
	if err != nil {
		return nil, fmt.Errorf("cannot list the containers of pods: %w", err)
	}
	mounts, err := m.Mounts()
	if err != nil {
		return nil, err
	}
	networks, err := m.NetNamespaces()
	if err != nil {
		return nil, err
	}
	left = running
	for _, id := range tasks {
		left = append(left, "container "+taskcatalog.Clean(id, 64))
	}
	for _, mt := range mounts {
		if strings.HasPrefix(mt.Point, kubeletRoot+"/") || strings.HasPrefix(mt.Point, podTasks+"/") {
			left = append(left, "mount "+taskcatalog.Clean(mt.Point, 120))
		}
	}
	for _, name := range networks {
		if strings.HasPrefix(path.Base(name), podNetwork) {
			left = append(left, "network "+taskcatalog.Clean(name, 80))
		}
	}
	return left, nil
}

// podProcesses lists the processes in the groups of pods. One that cannot be looked at may be one of them.
func podProcesses(m *machine.Machine) (found []string, err error) {
	pids, err := m.PIDs()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		group, err := m.Cgroup(pid)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH):
			continue
		case err != nil:
			return nil, fmt.Errorf("cannot say whether process %d is of a pod: %w", pid, err)
		}
		if slices.ContainsFunc(strings.Split(group, "/"), func(part string) bool { return strings.HasPrefix(part, podSlice) }) {
			found = append(found, fmt.Sprintf("process %d", pid))
		}
	}
	return found, nil
}

// pluginLinks are how the names of links begin that network plugins and kube-proxy make. kubeadm leaves them.
var pluginLinks = []string{"cni", "flannel", "cali", "vxlan.calico", "cilium_", "lxc", "kube-ipvs", "kube-bridge", "nodelocaldns", "weave"}

// linksLeft lists links of network plugins. They keep nobody from the node, and go with the next start of it.
func linksLeft(s *Step) (links []string, err error) {
	names, err := s.Host.Machine.Names("/sys/class/net")
	for _, name := range names {
		if slices.ContainsFunc(pluginLinks, func(begins string) bool { return strings.HasPrefix(name, begins) }) {
			links = append(links, taskcatalog.Clean(name, 16))
		}
	}
	return links, err
}
