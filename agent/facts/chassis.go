package facts

import (
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/machine"
)

// unfilled are the placeholders of boards without a serial from the vendor.
var unfilled = []string{
	"0", "none", "n/a", "na", "unknown", "not specified", "not applicable", "not available", "default string", "to be filled by o.e.m.",
	"system serial number", "chassis serial number", "0123456789", "1234567890", "empty", "invalid",
}

// chassisSerial is the vendor's serial of the whole machine, from its firmware; "" if none was
// written.
func chassisSerial(m *machine.Machine) string {
	serial := attribute(m, "/sys/class/dmi/id/product_serial")
	if slices.Contains(unfilled, strings.ToLower(serial)) || strings.Trim(serial, "0. -xX") == "" {
		return ""
	}
	return serial
}
