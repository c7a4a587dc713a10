package platform

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// The parsers follow the output of ipmitool 1.8.18 and 1.8.19. A user of the BMC chooses its name,
// of up to 16 bytes, and a community string has up to 18, both with any value: no line of either is
// long enough to pass for another line, and an unexpected line is refused.

// maxLines exceeds the lines of any output.
const maxLines = 1024

func linesOf(raw []byte) ([]string, error) {
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	if len(lines) > maxLines {
		return nil, fmt.Errorf("ipmitool printed %d lines, more than the limit", len(lines))
	}
	return lines, nil
}

func garbled(what, line string) error {
	return fmt.Errorf("ipmitool's output about %s has an invalid line: %s", what, taskcatalog.Clean(line, 80))
}

// deviceFields are the compared fields of `ipmitool mc info`; the rest are names from ipmitool's
// own list.
var deviceFields = []string{"Device ID", "Device Revision", "Firmware Revision", "IPMI Version", "Manufacturer ID", "Product ID"}

// parseDevice reads `ipmitool mc info`: KEY : VALUE, and lists with indented items.
func parseDevice(raw []byte) ([]taskcatalog.PlatformSetting, error) {
	lines, err := linesOf(raw)
	if err != nil {
		return nil, err
	}
	var all []taskcatalog.PlatformSetting
	var aux []string
	within := ""
	for _, line := range lines {
		if item, ok := strings.CutPrefix(line, "    "); ok && within != "" {
			if within == "Aux Firmware Rev Info" {
				aux = append(aux, item)
			}
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); !ok || key == "" || line[0] == ' ' {
			return nil, garbled("the BMC", line)
		}
		within = ""
		if value = strings.TrimSpace(value); value == "" {
			within = key
		}
		if slices.Contains(deviceFields, key) {
			if value == "" {
				return nil, garbled("the BMC", line)
			}
			all = append(all, setting("bmc "+key, value))
		}
	}
	if len(all) != len(deviceFields) {
		return nil, errors.New("ipmitool's output about the BMC must have each of " + strings.Join(deviceFields, ", ") + " exactly once")
	}
	return append(all, setting("bmc Aux Firmware Rev Info", strings.Join(aux, " "))), nil
}

// channel is an access channel of the BMC.
type channel struct {
	number        int
	lan, sessions bool
	settings      []taskcatalog.PlatformSetting
}

// parseChannel reads `ipmitool channel info N`: fields, and for a network two parts with the access
// settings now and after a reset.
func parseChannel(number int, raw []byte) (channel, error) {
	c := channel{number: number}
	what := fmt.Sprintf("channel %d", number)
	lines, err := linesOf(raw)
	if err != nil {
		return c, err
	}
	if lines[0] != fmt.Sprintf("Channel 0x%x info:", number) {
		return c, garbled(what, lines[0])
	}
	parts, part := map[string][]string{}, ""
	for _, line := range lines[1:] {
		switch line {
		case "  Volatile(active) Settings":
			part = " now"
			continue
		case "  Non-Volatile Settings":
			part = " after a reset"
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" || value == "" || !strings.HasPrefix(line, "  ") {
			return c, garbled(what, line)
		}
		switch key {
		case "Active Session Count":
			continue // changes by itself
		case "Channel Medium Type":
			c.lan = value == "802.3 LAN" || value == "Other LAN"
		case "Session Support":
			c.sessions = value != "session-less"
		}
		parts[part] = append(parts[part], key+" "+value)
	}
	if len(parts[""]) < 3 || c.lan && (len(parts[" now"]) != 4 || len(parts[" after a reset"]) != 4) {
		return c, fmt.Errorf("ipmitool's output about %s is incomplete", what)
	}
	for part, fields := range parts {
		c.settings = append(c.settings, setting(what+part, strings.Join(fields, ", ")))
	}
	return c, nil
}

// userFields are the lines of a user, in order.
var userFields = []string{
	"User ID", "User Name", "Fixed Name", "Access Available", "Link Authentication", "IPMI Messaging",
	"Privilege Level", "Enable Status",
}

// maxUsers is the maximum number of ids in IPMI.
const maxUsers = 63

// parseUsers reads `ipmitool channel getaccess N`: two counts, and for each id, from the first to
// the last, an empty line and the id's fields.
func parseUsers(number int, raw []byte) ([]taskcatalog.PlatformSetting, error) {
	what := fmt.Sprintf("the users of channel %d", number)
	lines, err := linesOf(raw)
	if err != nil {
		return nil, err
	}
	next := func(key string) (string, error) {
		if len(lines) == 0 {
			return "", fmt.Errorf("ipmitool's output about %s ends before its %s", what, key)
		}
		line := lines[0]
		lines = lines[1:]
		value, ok := strings.CutPrefix(line, fmt.Sprintf("%-21s: ", key))
		if !ok {
			return "", garbled(what, line)
		}
		return value, nil
	}
	count, err1 := next("Maximum User IDs")
	enabled, err2 := next("Enabled User IDs")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	most, err := strconv.Atoi(count)
	if err != nil || most < 1 || most > maxUsers {
		return nil, fmt.Errorf("the BMC reports %s users for channel %d", taskcatalog.Clean(count, 20), number)
	}
	all := []taskcatalog.PlatformSetting{setting(fmt.Sprintf("channel %d users", number), "at most "+count+", enabled "+enabled)}
	for id := 1; id <= most; id++ {
		if len(lines) == 0 || lines[0] != "" {
			return nil, fmt.Errorf("ipmitool's output about %s lacks user %d", what, id)
		}
		lines = lines[1:]
		said := make([]string, len(userFields))
		for i, key := range userFields {
			if said[i], err = next(key); err != nil {
				return nil, err
			}
			said[i] = taskcatalog.Clean(said[i], 80)
		}
		if said[0] != strconv.Itoa(id) {
			return nil, fmt.Errorf("ipmitool's output about %s has user %s in the place of user %d", what, said[0], id)
		}
		all = append(all, setting(fmt.Sprintf("channel %d user %d", number, id),
			fmt.Sprintf("%q, %s, %s; fixed name %s, access %s, link authentication %s, IPMI messaging %s",
				said[1], said[6], said[7], said[2], said[3], said[4], said[5])))
	}
	if len(lines) > 0 {
		return nil, garbled(what, lines[0])
	}
	return all, nil
}

// byDHCP are the fields set by a DHCP server, if DHCP is used.
var byDHCP = []string{"IP Address", "Subnet Mask", "Default Gateway IP", "Default Gateway MAC", "Backup Gateway IP", "Backup Gateway MAC"}

// parseLAN reads `ipmitool lan print N`: a key in 24 columns, a colon, a value; a line without a
// key continues the previous one.
func parseLAN(number int, raw []byte) ([]taskcatalog.PlatformSetting, error) {
	what := fmt.Sprintf("the network of channel %d", number)
	lines, err := linesOf(raw)
	if err != nil {
		return nil, err
	}
	type field struct{ name, value string }
	var fields []field
	dhcp, key := false, ""
	for _, line := range lines {
		if len(line) < 25 || line[24] != ':' {
			return nil, garbled(what, line)
		}
		label, value := strings.TrimSpace(line[:24]), line[25:]
		name := label
		switch {
		case label != "":
			key = label
		case key == "Cipher Suite Priv Max" && strings.HasPrefix(value, "     "):
			continue // the legend
		case key != "Auth Type Enable":
			return nil, garbled(what, line)
		}
		if key == "Auth Type Enable" { // the enabled types, by privilege level
			level, rest, ok := strings.Cut(value, ":")
			if !ok {
				return nil, garbled(what, line)
			}
			name, value = key+" "+strings.TrimSpace(level), rest
		}
		value = collapseSpaces(value)
		switch name {
		case "Set in Progress":
			continue
		case "IP Address Source":
			dhcp = value == "DHCP Address"
		case "SNMP Community String":
			sum := sha256.Sum256([]byte(value))
			value = "sha256:" + hex.EncodeToString(sum[:16])
		}
		fields = append(fields, field{name, value})
	}
	if !slices.ContainsFunc(fields, func(f field) bool { return f.name == "IP Address Source" }) {
		return nil, fmt.Errorf("ipmitool's output about %s does not say how the address is assigned", what)
	}
	var all []taskcatalog.PlatformSetting
	for _, f := range fields {
		if !dhcp || !slices.Contains(byDHCP, f.name) {
			all = append(all, setting(fmt.Sprintf("channel %d %s", number, f.name), f.value))
		}
	}
	return all, nil
}
