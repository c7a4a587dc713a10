//go:build e2e && e2e_all

package e2e

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// containers are one container per engine, with the tenant's secret in a volume or on the
// container's own disk. All ignore SIGTERM. containerd's container has a cgroup without an engine's
// name, and a shim that outlives the engine, as docker's shims do here.
var containers = []string{
	"docker import --change 'CMD [\"/planted\", \"hold\", \"/data/secret\"]' /root/image.tar tenant",
	"docker network create tenant",
	"docker run --detach --name tenant --restart always --network tenant --publish 8080:80 --volume vault:/data --env SECRET=canary-token --security-opt apparmor=unconfined tenant",
	"docker save tenant | ctr images import - && ctr run --detach --env SECRET=canary-token docker.io/library/tenant:latest bare /planted hold /secret",
	"podman import --quiet /root/image.tar tenant && podman run --detach --name tenant --publish 9090:80 --volume vault:/data --env SECRET=canary-token tenant /planted hold /data/secret",
}

// ofContainers are the findings that the containers must cause. The next action of each is the
// cleanup: no container requires a reimage.
var ofContainers = []struct{ check, subject string }{
	{"processes", "planted"},
	{"listeners", "tcp/8080"},
	{"listeners", "tcp/9090"},
	{"units", "/run/systemd/transient/docker-"},
	{"units", "/run/systemd/transient/libpod-"},
	{"containers", "/var/lib/docker/containers/"},
	{"containers", "/var/lib/docker/image/overlay2/imagedb/content/sha256/"},
	{"containers", "/var/lib/docker/volumes/vault"},
	{"containers", "/run/containerd/io.containerd.runtime.v2.task/moby/"},
	{"containers", "/run/containerd/io.containerd.runtime.v2.task/default/bare"},
	{"containers", "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/"},
	{"containers", "/var/lib/containers/storage/overlay-containers/"},
	{"containers", "/var/lib/containers/storage/volumes/vault"},
	{"namespaces", "/run/docker/netns/"},
	{"namespaces", "/run/netns/"},
	{"mounts", "/var/lib/docker/overlay2/"},
	{"mounts", "/run/containerd/io.containerd.runtime.v2.task/default/bare/rootfs"},
	{"mounts", "/var/lib/containers/storage/overlay/"},
}

// The baseline is taken while the engines run and after each engine ran a container: objects that
// the engines create for themselves belong to the node.
func TestContainersGoAndTheirEnginesComeBack(t *testing.T) {
	s := newSite(t)
	s.restore(installed)
	s.put("/root/image.tar", tarOf(t, "planted", planted(t)), 0o600)
	s.put("/etc/docker/daemon.json", []byte(`{"live-restore": true}`), 0o644)
	s.root("sh", "-c", "podman import --quiet /root/image.tar first && podman run --rm --publish 9090:80 first /planted say so && podman rmi --all")
	s.root("systemctl", "enable", "--quiet", "--now", "docker.service")
	s.enrol()
	before := s.root("systemctl", "show", "-P", "MainPID", "docker.service")
	rules := s.root("nft", "list", "ruleset")

	for _, line := range containers {
		s.root("sh", "-c", line)
	}
	if n := strings.Count(s.root("pgrep", "-x", "planted"), "\n") + 1; n != 3 {
		t.Errorf("%d containers run, not 3", n)
	}
	dirty := s.must("node.validate_clean", map[string]any{})
	found := s.evidence(dirty.ID).Findings
	for _, c := range ofContainers {
		if !has(found, c.check, c.subject, taskcatalog.ActionStorageCleanup) {
			t.Errorf("%s %s… was not found, or not with what mends it", c.check, c.subject)
		}
	}
	if t.Failed() {
		for _, f := range found {
			t.Logf("%s: %s: %s: %s", f.Check, f.Subject, f.Detail, f.NextAction)
		}
	}

	s.must("node.storage_cleanup", map[string]any{"scope": "local"})
	clean := s.must("node.validate_clean", map[string]any{})
	if ev := s.evidence(clean.ID); clean.Verdict != string(taskcatalog.VerdictClean) {
		t.Errorf("the verdict after the cleanup is %s: %+v %+v", clean.Verdict, ev.Findings, unmade(ev))
		t.Logf("firewall rules before:\n%s\nand after:\n%s", rules, s.root("nft", "list", "ruleset"))
	}
	// The agent's result is not trusted.
	for _, look := range []string{
		"pgrep 'planted|containerd-shim|conmon'",
		"grep --recursive --files-with-matches canary-token /var/lib /run",
		"grep --extended-regexp 'overlay|/run/(docker/)?netns/' /proc/1/mountinfo",
		"ip -oneline link show type bridge | grep --invert-match docker0",
	} {
		if r, err := s.guest.Run(s.ctx, "sh", "-c", look); r.Exit != 1 { // 1: nothing was found
			t.Errorf("%s shows %s%s %v", look, r.Stdout, r.Stderr, err)
		}
	}
	if after := s.root("systemctl", "show", "-P", "MainPID", "docker.service"); after == before || after == "0" {
		t.Errorf("the engine was process %s and is %s: it was not stopped and started", before, after)
	}
	if left := s.root("sh", "-c", "docker ps --all --quiet; docker images --all --quiet; docker volume ls --quiet; docker network ls --quiet --filter type=custom"); left != "" {
		t.Errorf("the engine still has %s", left)
	}
	said := s.root("sh", "-c", containers[0]+" > /dev/null && docker run --rm --security-opt apparmor=unconfined tenant /planted say 'the next tenant'")
	if said != "the next tenant" {
		t.Errorf("a container of the next tenant said %q", said)
	}
}
