package platform

import (
	"bytes"
	"errors"
)

// maxSMBIOS exceeds the tables of real machines, in bytes.
const maxSMBIOS = 1 << 20

// Types of the structures of a management controller, and of the end.
const (
	ipmiDevice              = 38
	managementHostInterface = 42
	endOfTable              = 127
)

// hasManagementController walks the SMBIOS table: structures of a type, a length and a handle, each
// followed by texts that end in two zeros. A table that cannot be walked to its end is an error.
func hasManagementController(table []byte) (bool, error) {
	garbled := errors.New("cannot tell whether the machine has a BMC: its SMBIOS table cannot be read")
	if len(table) == 0 {
		return false, garbled
	}
	for len(table) > 0 {
		const head = 4
		if len(table) < head || table[1] < head || len(table) < int(table[1]) {
			return false, garbled
		}
		switch table[0] {
		case ipmiDevice, managementHostInterface:
			return true, nil
		case endOfTable:
			return false, nil
		}
		rest := table[table[1]:]
		end := bytes.Index(rest, []byte{0, 0})
		if end < 0 {
			return false, garbled
		}
		table = rest[end+2:]
	}
	return false, nil
}
