package taskcatalog

import "testing"

// Files in these places start programs as root or decide who may do what.
func TestNoStepWritesWhereFilesAreRunOrDecideRights(t *testing.T) {
	for _, dir := range []string{
		"/etc/NetworkManager", "/etc/acpi", "/etc/audit", "/etc/lvm", "/etc/mdadm", "/etc/resolvconf", "/etc/smartmontools", "/etc/ufw",
		"/usr/local/share/dbus-1", "/usr/local/share/polkit-1", "/var/cache/debconf", "/var/lib/apt",
	} {
		for _, root := range []string{dir, dir + "/below"} {
			if FormFault(StepArg{Type: StepRoot}, StepValue{Literal: root}) == "" {
				t.Errorf("a step may write below %s", root)
			}
		}
		if what := FormFault(StepArg{Type: StepRoot}, StepValue{Literal: dir + "-of-a-site"}); what != "" {
			t.Errorf("no step may write below %s-of-a-site: %s", dir, what)
		}
	}
}

func TestNoStepControlsTheMachinesOwnUnits(t *testing.T) {
	for _, unit := range []string{
		"networking.service", "NetworkManager.service", "NetworkManager-dispatcher.service", "autovt@tty1.service", "container-getty@1.service",
		"dropbear.service", "dropbear.socket", "rc-local.service", "ifup@eth0.service", "ssh.service", "getty@tty1.service",
	} {
		if FormFault(StepArg{Type: StepUnit}, StepValue{Literal: unit}) == "" {
			t.Errorf("a step may control %s", unit)
		}
	}
	for _, unit := range []string{"slurmd.service", "network-probe.service", "ifupdate.timer"} {
		if what := FormFault(StepArg{Type: StepUnit}, StepValue{Literal: unit}); what != "" {
			t.Errorf("no step may control %s: %s", unit, what)
		}
	}
}
