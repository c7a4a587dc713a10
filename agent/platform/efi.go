package platform

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const (
	variables = "/sys/firmware/efi/efivars"
	global    = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
	security  = "d719b2cb-3d3a-4596-a3bc-dad00e67656f"
	shim      = "605dab50-e046-4300-abb6-3dd810dd8b23"

	maxVariable = 1 << 20 // bytes
)

// Variables of the programs that the firmware runs before the operating system, and their order.
// The booted entry changes by itself.
var (
	entryVariable = lazyregexp.New(`^(Boot|Driver|SysPrep)[0-9A-F]{4}$`)
	orderVariable = lazyregexp.New(`^(BootNext|(Boot|Driver|SysPrep)Order)$`)
	modeVariable  = lazyregexp.New(`^(SecureBoot|SetupMode|AuditMode|DeployedMode)$`)
)

// efi reads the variables that decide what boots, and what the firmware trusts.
func (p *Platform) efi(context.Context) (Reading, error) {
	has, err := p.Machine.Has("/sys/firmware/efi")
	if err != nil {
		return Reading{}, err
	}
	if !has {
		return Reading{Absent: "the machine was not booted by EFI"}, nil
	}
	names, err := p.Machine.Names(variables)
	if err != nil {
		return Reading{}, err
	}
	if len(names) == 0 {
		return Reading{}, errors.New("the machine was booted by EFI, and no EFI variable can be read (mount efivarfs)")
	}
	var r Reading
	var unread error
	secureBoot := false
	for _, file := range names {
		read := reader(file)
		if read == nil {
			continue
		}
		raw, err := p.Machine.ReadFile(path.Join(variables, file), maxVariable)
		name, _, _ := strings.Cut(file, "-")
		value := ""
		if err == nil {
			value, err = read(raw)
		}
		if err != nil {
			unread = errors.Join(unread, fmt.Errorf("cannot read the EFI variable %s: %w", name, err))
			continue
		}
		secureBoot = secureBoot || name == "SecureBoot"
		r.set(name, value)
	}
	// The text is stored in baselines and compared with what other releases stored: it never changes.
	if !secureBoot && unread == nil {
		r.set("SecureBoot", "the firmware does not have it")
	}
	return r, unread
}

// reader returns the parser of a variable; nil: the variable is not compared.
func reader(file string) func([]byte) (string, error) {
	if len(file) < len(global)+2 || file[len(file)-len(global)-1] != '-' {
		return nil
	}
	name, vendor := file[:len(file)-len(global)-1], file[len(file)-len(global):]
	switch {
	case vendor == global && orderVariable.MatchString(name):
		return parseOrder
	case vendor == global && modeVariable.MatchString(name):
		return parseMode
	case vendor == global && (entryVariable.MatchString(name) || name == "PK" || name == "KEK"),
		vendor == security && (name == "db" || name == "dbx" || name == "dbt" || name == "dbr"),
		vendor == shim: // its keys, its own switch, and requests to confirm at the next boot
		return digestOf
	}
	return nil
}

const attributes = 4 // bytes of a variable's file before its content

// parseOrder reads numbers of entries.
func parseOrder(raw []byte) (string, error) {
	if len(raw) < attributes || len(raw)%2 != 0 {
		return "", fmt.Errorf("the variable has the wrong size, %d bytes", len(raw))
	}
	var entries []string
	for at := attributes; at < len(raw); at += 2 {
		entries = append(entries, fmt.Sprintf("%04X", binary.LittleEndian.Uint16(raw[at:])))
	}
	return strings.Join(entries, " "), nil
}

// parseMode reads a switch.
func parseMode(raw []byte) (string, error) {
	if len(raw) != attributes+1 || raw[attributes] > 1 {
		return "", fmt.Errorf("the variable has %d bytes and is not a switch", len(raw))
	}
	return map[byte]string{0: "off", 1: "on"}[raw[attributes]], nil
}

func digestOf(raw []byte) (string, error) {
	if len(raw) < attributes {
		return "", fmt.Errorf("the variable has the wrong size, %d bytes", len(raw))
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:16]), nil
}
