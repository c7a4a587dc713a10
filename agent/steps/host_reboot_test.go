package steps

import (
	"context"
	"errors"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
)

const bootIDFile = "proc/sys/kernel/random/boot_id"

func TestOnlyAnotherBootProvesARestart(t *testing.T) {
	h, dir := hosttest.Box(t)
	hosttest.Put(t, dir, bootIDFile, "one\n")
	d := h.Systemd.(*hosttest.Systemd)
	s := aStep(t, h, "host.reboot", nil)
	if look(t, s) {
		t.Error("done before anything was asked")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("the agent is stopped")
	d.OnReboot = func() error { cancel(stopped); return nil }
	k, _ := Lookup("host.reboot")
	if _, err := k.Do(ctx, s); !errors.Is(err, stopped) {
		t.Errorf("the step ended before the agent was stopped: %v", err)
	}
	if look(t, s) {
		t.Error("a restart of the agent is a restart of the machine")
	}
	hosttest.Put(t, dir, bootIDFile, "two\n")
	if !look(t, s) {
		t.Error("the machine has started again, and that is not seen")
	}
	s.Plan.Attempt = 2
	if look(t, s) {
		t.Error("a restart that an earlier task asked for counts")
	}
}

func TestARestartThatSystemdRefusesFails(t *testing.T) {
	h, dir := hosttest.Box(t)
	hosttest.Put(t, dir, bootIDFile, "one\n")
	refusal := errors.New("no")
	h.Systemd.(*hosttest.Systemd).OnReboot = func() error { return refusal }
	if _, err := do(t, aStep(t, h, "host.reboot", nil)); !errors.Is(err, refusal) {
		t.Error(err)
	}
	hosttest.Put(t, dir, bootIDFile, "")
	if _, err := do(t, aStep(t, h, "host.reboot", nil)); err == nil || errors.Is(err, refusal) {
		t.Errorf("a boot without an id is asked to end: %v", err)
	}
}
