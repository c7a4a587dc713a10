package machine

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// blockObject names a device of /sys/block as an object. The name is "" if software did not set up
// the device.
func (m *Machine) blockObject(name string) (string, error) {
	for _, kind := range []struct {
		prefix, attribute string
		object            func(value string) string
	}{
		{"loop", "loop/backing_file", func(v string) string { return "loop/" + v }},
		{"dm-", "dm/name", func(v string) string { return "dm/" + v }},
		{"md", "md/level", func(v string) string { return "md/" + name + " " + v }},
		{"nbd", "pid", func(string) string { return "nbd/" + name }},
		{"zram", "disksize", func(v string) string {
			if n, err := strconv.ParseUint(v, 10, 64); err == nil && n == 0 {
				return ""
			}
			return "zram/" + name
		}},
	} {
		if !strings.HasPrefix(name, kind.prefix) {
			continue
		}
		value, err := m.text(path.Join("/sys/block", name, kind.attribute))
		if err != nil {
			return "", fmt.Errorf("cannot look at block device %s: %w", name, err)
		}
		if value != "" {
			return kind.object(value), nil
		}
	}
	return "", nil
}
