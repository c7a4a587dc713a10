package facts

import (
	"slices"
	"strings"

	"github.com/hostler/hostler/agent/machine"
)

// unfilled is what boards say whose vendor wrote no serial.
var unfilled = []string{
	"0", "none", "n/a", "na", "unknown", "not specified", "not applicable", "not available", "default string", "to be filled by o.e.m.",
	"system serial number", "chassis serial number", "0123456789", "1234567890", "empty", "invalid",
}

// chassisSerial is what the vendor calls the whole machine by, as its firmware tells
// the kernel; "" where nobody wrote one.
func chassisSerial(m *machine.Machine) string {
	serial := attribute(m, "/sys/class/dmi/id/product_serial")
	if slices.Contains(unfilled, strings.ToLower(serial)) || strings.Trim(serial, "0. -xX") == "" {
		return ""
	}
	return serial
}
