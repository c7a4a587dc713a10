package ipmi

import (
	"errors"
	"strings"

	"github.com/hostler/hostler/broker/machines"
)

// The parsers follow the output of ipmitool 1.8.18 and 1.8.19.

var errAnswer = errors.New("ipmitool's answer has another form")

// parseState reads `ipmitool chassis power status`.
func parseState(raw []byte) (machines.State, error) {
	switch string(raw) {
	case "Chassis Power is on\n":
		return machines.On, nil
	case "Chassis Power is off\n":
		return machines.Off, nil
	}
	return machines.Unknown, errAnswer
}

const maxLines = 1024

// parseFRU reads the serial number of the product in `ipmitool fru print 0`: KEY : VALUE. A BMC
// without a number for the product has an identity without a serial number.
func parseFRU(raw []byte) (id machines.Identity, err error) {
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	if len(lines) > maxLines {
		return id, errAnswer
	}
	seen := false
	for _, line := range lines {
		key, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(key) != "Product Serial" {
			continue
		}
		if seen { // two numbers are none
			return machines.Identity{}, errAnswer
		}
		id.Serial, seen = machines.Serial(value), true
	}
	return id, nil
}
