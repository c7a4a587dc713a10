package records

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// disksOf returns the disks for which MAAS knows a serial.
func disksOf(all []onboarding.Device) []broker.Device {
	out := []broker.Device{}
	for _, d := range all {
		if d.Serial != "" {
			out = append(out, broker.Device{ID: d.Serial, Model: d.Model, Place: d.Name, Size: d.Size})
		}
	}
	return out
}

// Hardware returns the check of a node's machine before the node is activated. Code: sku_not_found.
func Hardware(ctx context.Context, db *store.DB, n broker.Node) (store.Hardware, error) {
	if n.SKU == "" {
		return judge(nil), nil
	}
	sku, err := db.SKU(ctx, n.SKU)
	return judge(&sku), err
}

// judge compares a machine with a SKU (nil: no SKU) and with the required devices of the node.
//
// A machine deployed for its node is the machine that MAAS has commissioned, because the enrol
// token can come from nowhere else. A missing disk is therefore shown, and decides nothing. Where a
// person ran the install command, only the disks prove a run on the intended machine.
func judge(sku *broker.SKU) store.Hardware {
	return func(n broker.Node, f taskcatalog.Facts, known bool, parts []broker.Device) (unlike, lacks string) {
		byHand := n.Bootstrap == "command"
		if !known && (sku != nil || byHand) {
			return "", "its agent has not reported the machine's hardware"
		}
		if sku != nil {
			if unlike := sku.GPUDifference(f.GPUs); unlike != "" {
				return unlike + why(f), ""
			}
		}
		if !byHand {
			return "", ""
		}
		if missing, _ := broker.WrongDevices(parts); len(missing) > 0 {
			return fmt.Sprintf("%s %s, which MAAS found in machine %s, is not in the enrolled machine: check whether the command was run on another machine", missing[0].Kind, missing[0].ID, n.MAASSystemID), ""
		}
		if !f.DisksListed && len(parts) > 0 {
			return "", "its agent does not report its disks, so the broker cannot verify that it is the right machine (update the agent)"
		}
		return "", ""
	}
}

// why returns the vendor library's message where the agent lists no GPU.
func why(f taskcatalog.Facts) string {
	if len(f.GPUs) > 0 {
		return ""
	}
	for _, l := range f.Libraries {
		if l.Problem != "" {
			return fmt.Sprintf(" (%s: %s)", l.Name, l.Problem)
		}
	}
	return ""
}
