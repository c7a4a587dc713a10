package erase

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// controller is the reported abilities of an NVMe controller.
type controller struct {
	serial, model string
	namespaces    bool // supports namespace management, so may hide namespaces
	format        bool
	// FNA: a format or an erase affects all namespaces; a cryptographic erase is possible.
	cryptoErase                                  bool
	sanitizeCrypto, sanitizeBlock, sanitizeWrite bool
}

// parseController reads `nvme id-ctrl --output-format=json`.
func parseController(raw []byte) (controller, error) {
	var said struct {
		Serial *string `json:"sn"`
		Model  *string `json:"mn"`
		OACS   *int64  `json:"oacs"`
		FNA    *int64  `json:"fna"`
		// Some versions print a sign.
		SANICAP *int64 `json:"sanicap"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return controller{}, fmt.Errorf("the output of nvme id-ctrl is not JSON: %w", err)
	}
	if said.Serial == nil || said.Model == nil || said.OACS == nil || said.FNA == nil || said.SANICAP == nil {
		return controller{}, errors.New("the output of nvme id-ctrl lacks sn, mn, oacs, fna or sanicap")
	}
	if *said.OACS < 0 || *said.OACS > 0xffff || *said.FNA < 0 || *said.FNA > 0xff || *said.SANICAP < -1<<31 || *said.SANICAP > 1<<32-1 {
		return controller{}, errors.New("a value in the output of nvme id-ctrl is out of bounds")
	}
	bit := func(of *int64, n int) bool { return *of>>n&1 == 1 }
	return controller{
		serial: collapseSpaces(*said.Serial), model: collapseSpaces(*said.Model),
		format: bit(said.OACS, 1), namespaces: bit(said.OACS, 3), cryptoErase: bit(said.FNA, 2),
		sanitizeCrypto: bit(said.SANICAP, 0), sanitizeBlock: bit(said.SANICAP, 1), sanitizeWrite: bit(said.SANICAP, 2),
	}, nil
}

// parseNamespaces reads `nvme list-ns --output-format=json`.
func parseNamespaces(raw []byte) ([]int64, error) {
	var said struct {
		List []struct {
			NSID *int64 `json:"nsid"`
		} `json:"nsid_list"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return nil, fmt.Errorf("the output of nvme list-ns is not JSON: %w", err)
	}
	if said.List == nil || len(said.List) > 1024 {
		return nil, errors.New("the output of nvme list-ns has no list of namespaces")
	}
	var all []int64
	for _, n := range said.List {
		if n.NSID == nil || *n.NSID < 1 || *n.NSID >= 1<<32-1 {
			return nil, errors.New("the output of nvme list-ns has an invalid namespace")
		}
		all = append(all, *n.NSID)
	}
	return all, nil
}

// parseLBAFormat reads a namespace's present LBA format from `nvme id-ns --output-format=json`, so
// that a format keeps it.
func parseLBAFormat(raw []byte) (int, error) {
	var said struct {
		FLBAS *int64 `json:"flbas"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return 0, fmt.Errorf("the output of nvme id-ns is not JSON: %w", err)
	}
	if said.FLBAS == nil || *said.FLBAS < 0 || *said.FLBAS > 0xff {
		return 0, errors.New("the output of nvme id-ns has no flbas")
	}
	return int(*said.FLBAS&0xf | *said.FLBAS>>5&3<<4), nil
}

// sanitizeState is the sanitize status log page.
type sanitizeState struct {
	status  int // 0 never, 1 completed, 2 in progress, 3 failed, 4 completed without the requested deallocation
	percent int
	action  int // of the last sanitize: 2 blocks, 3 overwrite, 4 key
}

const (
	sanitizeNever           = 0
	sanitizeDone            = 1
	sanitizeRunning         = 2
	sanitizeFailed          = 3
	sanitizeDoneDeallocated = 4

	sanitizeBlock  = 2
	sanitizeWrite  = 3
	sanitizeCrypto = 4
)

// parseSanitize reads the page as printed by `nvme sanitize-log --raw-binary`: the progress in
// parts of 65536, the status, and the command.
func parseSanitize(raw []byte) (sanitizeState, error) {
	const least, most = 20, 4096
	if len(raw) < least || len(raw) > most {
		return sanitizeState{}, fmt.Errorf("the sanitize log page has the wrong size, %d bytes", len(raw))
	}
	s := sanitizeState{
		percent: int(binary.LittleEndian.Uint16(raw)) * 100 / 65536,
		status:  int(binary.LittleEndian.Uint16(raw[2:]) & 7),
		action:  int(binary.LittleEndian.Uint32(raw[4:]) & 7),
	}
	if s.status > sanitizeDoneDeallocated {
		return s, fmt.Errorf("the sanitize log page has the unknown status %d", s.status)
	}
	return s, nil
}

// security is the security state reported by an ATA disk.
type security struct {
	serial, model                                string
	supported, enabled, locked, frozen, enhanced bool
}

// parseSecurity reads `hdparm -I`. A disk without the feature has no Security part, or reports it
// as not supported there. A disk with the feature must report each state.
func parseSecurity(raw []byte) (security, error) {
	var s security
	inside := false
	told := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\r\n")
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "Serial Number:"); ok && s.serial == "" {
			s.serial = collapseSpaces(text)
			continue
		}
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "Model Number:"); ok && s.model == "" {
			s.model = collapseSpaces(text)
			continue
		}
		if line != "" && line[0] != '\t' && line[0] != ' ' {
			inside = strings.HasPrefix(line, "Security:")
			continue
		}
		if !inside {
			continue
		}
		said := strings.Fields(line)
		is := len(said) > 0 && said[0] != "not"
		if !is && len(said) > 0 {
			said = said[1:]
		}
		state := strings.Join(said, " ")
		told[state] = true
		switch state {
		case "supported":
			s.supported = is
		case "enabled":
			s.enabled = is
		case "locked":
			s.locked = is
		case "frozen":
			s.frozen = is
		case "supported: enhanced erase":
			s.enhanced = is
		}
	}
	if s.serial == "" && s.model == "" {
		return s, errors.New("the output of hdparm -I has no serial number and no model")
	}
	for _, state := range []string{"enabled", "locked", "frozen"} {
		if s.supported && !told[state] {
			return s, fmt.Errorf("the output of hdparm -I does not say whether the disk's security is %s", state)
		}
	}
	return s, nil
}
