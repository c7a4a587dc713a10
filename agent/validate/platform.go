package validate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/platform"
	"github.com/hostler/hostler/taskcatalog"
)

// lookPlatform compares one row of the settings below the operating system with the baseline.
// Settings that were read count, even if others could not be read.
func lookPlatform(row string) func(context.Context, *validation) ([]item, error) {
	return func(ctx context.Context, v *validation) ([]item, error) {
		now, err := v.below.Read(ctx, row)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if v.takesBaseline {
			if err != nil {
				return nil, err
			}
			if now.Absent != "" {
				v.absent[row] = now.Absent
			}
			v.now.Platform = append(v.now.Platform, taskcatalog.PlatformRow{Check: row, Absent: now.Absent, Settings: now.Settings})
			return nil, nil
		}
		if v.base == nil {
			return nil, err
		}
		was := v.base.PlatformRow(row)
		if was == nil && err != nil {
			return nil, err // a new baseline could not have the row either
		}
		if was == nil {
			return nil,
				errors.New("the baseline was taken by an agent that did not check this (take a new baseline: hostler node baseline retake)")
		}
		if err == nil && now.Absent != "" && len(was.Settings) == 0 {
			v.absent[row] = now.Absent
			return nil, nil
		}
		return comparePlatform(was, now, err == nil), err
	}
}

// comparePlatform lists the differences; whole is true if every setting was read.
func comparePlatform(was *taskcatalog.PlatformRow, now platform.Reading, whole bool) []item {
	var items []item
	differs := func(subject, format string, args ...any) {
		items = append(items, item{
			row: was.Check, key: was.Check + "/" + subject, differs: true, partial: true,
			finding: taskcatalog.Finding{
				Subject: subject, Detail: fmt.Sprintf(format, args...), NextAction: platformRemedy(was.Check),
			},
		})
	}
	if was.Absent != "" && whole && len(now.Settings) > 0 {
		differs(was.Check, "present now, and absent when the baseline was taken (%s)", was.Absent)
		return items
	}
	if now.Absent != "" {
		differs(was.Check, "%s; the baseline has %d settings of it", now.Absent, len(was.Settings))
		return items
	}
	before := make(map[string]string, len(was.Settings))
	for _, s := range was.Settings {
		before[s.Name] = s.Value
	}
	for _, s := range now.Settings {
		value, known := before[s.Name]
		delete(before, s.Name)
		switch {
		case !known && !sameDevice(was.Check, s.Name):
			differs(s.Name, "not in the baseline: %s", shown(s.Value))
		case known && value != s.Value:
			differs(s.Name, "is %s, was %s", shown(s.Value), shown(value))
		}
	}
	if !whole {
		return items // a missing setting may be one that could not be read
	}
	for _, s := range was.Settings {
		if value, left := before[s.Name]; left && !sameDevice(was.Check, s.Name) {
			differs(s.Name, "is gone, was %s", shown(value))
		}
	}
	return items
}

// sameDevice reports whether a version belongs to a device. The inventory reports a device that is
// gone, and a new device has nothing to compare with.
func sameDevice(row, name string) bool {
	kind, _, _ := strings.Cut(name, " ")
	return row == taskcatalog.CheckFirmware && slices.Contains([]string{"gpu", "nic", "nvme"}, kind)
}

func shown(value string) string {
	if value == "" {
		return "empty"
	}
	return value
}

// platformRemedy returns the next action for a row: a reimage for virtual functions, which do not
// survive a boot, and work by hand for the rest.
func platformRemedy(row string) string {
	if row == taskcatalog.CheckSRIOV {
		return taskcatalog.ActionReimage
	}
	return taskcatalog.ActionByHand
}
