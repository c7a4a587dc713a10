package validate

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/cleanup"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
)

func TestThingsOfAContainerSayThatACleanupMendsThem(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for file, is := range map[string]bool{
		"/run/systemd/transient/docker-" + id + ".scope":                       true,
		"/run/systemd/transient/docker-" + id + ".scope.d/50-DeviceAllow.conf": true,
		"/run/systemd/transient/libpod-conmon-" + id + ".scope":                true,
		"/etc/systemd/system/docker-" + id + ".scope":                          false,
		"/run/systemd/transient/docker-" + id + ".service":                     false,
		"/run/systemd/transient/implant.service":                               false,
		"/run/systemd/transient/implant.service.d/docker-" + id + ".scope":     false,
		"/run/systemd/system/docker-" + id + ".scope.d/50-whatever.conf":       false,
		"/run/systemd/transient/../../../etc/systemd/docker-" + id + ".scope":  false,
	} {
		if cleanup.ContainerUnit(file) != is {
			t.Errorf("%s: %v", file, !is)
		}
	}
	v := &validation{Run: &host.Run{Host: &host.Host{ContainerRoots: map[string]string{"/data/engine": ""}}}}
	for point, is := range map[string]bool{
		"/var/lib/docker/overlay2/x/merged":                         true,
		"/run/containerd/io.containerd.runtime.v2.task/k8s.io/x/fs": true,
		"/data/engine/overlay2/x":                                   true,
		"/var/lib/docker":                                           false, // a disk, not a container's
		"/var/lib/dockerx/y":                                        false,
		"/mnt":                                                      false,
	} {
		if v.containers(point) != is {
			t.Errorf("%s: %v", point, !is)
		}
	}
}

func TestTheContentsOfAMovedEngineAreFound(t *testing.T) {
	h, dir := hosttest.Used(t)
	h.ContainerRoots = map[string]string{"/data/docker": "docker.service", "/data/containers": ""}
	for _, name := range []string{"data/docker/containers/c1/x", "data/docker/image/overlay2/imagedb/content/sha256/i1", "data/docker/volumes/v1/x", "data/containers/storage/overlay-containers/p1/x"} {
		hosttest.Put(t, dir, name, "")
	}
	items, err := lookContainers(context.Background(), &validation{Run: &host.Run{Host: h}, m: h.Machine})
	hosttest.OK(t, err)
	for _, want := range []string{"/data/docker/containers/c1", "/data/docker/image/overlay2/imagedb/content/sha256/i1", "/data/docker/volumes/v1", "/data/containers/storage/overlay-containers/p1"} {
		if !slices.ContainsFunc(items, func(it item) bool { return it.finding.Subject == want }) {
			t.Errorf("%s is not found: %+v", want, items)
		}
	}
}
