package erase

import (
	"context"
	"fmt"
	"strings"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// Probe describes in a line the state of the disks of an interrupted task. None of them counts as
// erased: an overwrite was not read back, and the end of an erase inside a drive was not observed.
func Probe(ctx context.Context, m *machine.Machine, commands *command.Runner, names []taskcatalog.DiskName) string {
	s := system{m}
	all, _, err := s.disks()
	if err != nil {
		return "the disks cannot be read: " + err.Error()
	}
	var found []string
	for _, name := range names {
		d, err := find(name, all)
		if err != nil {
			found = append(found, err.Error())
			continue
		}
		if state := s.state(ctx, commands, d); state != "" {
			found = append(found, d.label()+": "+state)
		}
	}
	return strings.Join(append(found, "none of the task's disks counts as erased: run the erase again"), "; ")
}

// state describes a drive's own report of an erase; "" if there is nothing to report.
func (s system) state(ctx context.Context, commands *command.Runner, d *disk) string {
	switch {
	case d.transport == "pcie" && len(d.controllers) == 1:
		raw, err := run(ctx, commands, "nvme_sanitize_log", map[string]any{"controller": "/dev/" + d.controllers[0]})
		if err != nil {
			return ""
		}
		state, err := parseSanitize(raw)
		switch {
		case err != nil:
			return ""
		case state.status == sanitizeRunning:
			return fmt.Sprintf("a sanitize runs inside the drive, at %d %%, and the agent cannot stop it", state.percent)
		case state.status == sanitizeFailed:
			return "its last sanitize failed"
		}
	case local(d.transport) && d.ata:
		raw, err := run(ctx, commands, "hdparm_identify", map[string]any{"disk": "/dev/" + d.name})
		if err != nil {
			return ""
		}
		if sec, err := parseSecurity(raw); err == nil && sec.enabled {
			return "the disk has an ATA password, which is \"hostler\" if the task set it"
		}
	}
	return ""
}
