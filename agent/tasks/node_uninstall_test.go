package tasks

import (
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestUninstallIsForPackagesAndHappensAfterTheResult(t *testing.T) {
	h, dir := hosttest.Box(t)
	r := &host.Run{Params: &taskcatalog.UninstallParams{}, Host: h}
	if _, _, err := uninstall(t.Context(), r); taskcatalog.CodeOf(err, "") != "not_packaged" {
		t.Errorf("got %v", err)
	}
	hosttest.Put(t, dir, "var/lib/dpkg/info/hostler-agent.list", "/.\n")
	if _, _, err := uninstall(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	systemd := h.Systemd.(*hosttest.Systemd)
	if len(systemd.Asked) != 0 {
		t.Errorf("something was done before the result: %v", systemd.Asked)
	}
	handler, _ := Lookup("node.uninstall", 1)
	if err := handler.After(t.Context(), h); err != nil || !slices.Equal(systemd.Asked, []string{"hostler-agent-uninstall.service: /usr/bin/dpkg --purge hostler-agent"}) {
		t.Errorf("asked %v, %v", systemd.Asked, err)
	}
}
