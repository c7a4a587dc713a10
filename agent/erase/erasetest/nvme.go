package erasetest

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
)

// The statuses of a sanitize log page: NVM Express Base Specification, 5.1.12.1.33.
const (
	sanitizeNever   = 0
	sanitizeRunning = 2
	sanitizeFailed  = 3
)

// nvme is the program nvme.
func (c *call) nvme() int {
	switch c.args[0] {
	case "id-ctrl":
		return show(map[string]any{
			"vid": 6966, "sn": c.Serial + "    ", "mn": c.Model + "   ", "oacs": c.OACS, "fna": c.FNA,
			"sanicap": c.SANICAP,
		})
	case "id-ns":
		return show(map[string]any{"nsze": 16384, "flbas": c.FLBAS})
	case "list-ns":
		return c.listNamespaces()
	case "sanitize-log":
		return c.sanitizeLog()
	case "sanitize":
		return c.sanitize()
	case "format":
		return c.format()
	}
	panic("not simulated: " + c.line)
}

func (c *call) listNamespaces() int {
	ids := slices.Clone(c.Namespaces)
	if slices.Contains(c.args, "--all") {
		ids = append(ids, c.Hidden...)
	}
	list := []map[string]any{}
	for _, id := range ids {
		list = append(list, map[string]any{"nsid": id})
	}
	return show(map[string]any{"nsid_list": list})
}

// sanitizeLog is nvme sanitize-log: each call reads the next status of the drive.
func (c *call) sanitizeLog() int {
	page := make([]byte, 512)
	action, err := os.ReadFile(c.play("action"))
	status := c.Before
	reads, _ := os.ReadFile(c.play("reads"))
	if n := len(reads); err == nil || c.Before == sanitizeRunning {
		if status = c.Log[min(n, len(c.Log)-1)]; err != nil && status != sanitizeRunning {
			status = sanitizeNever
		}
		note(c.play("reads"), "")
		binary.LittleEndian.PutUint16(page, uint16(65535*(n+1)/(len(c.Log)+1)))
	}
	binary.LittleEndian.PutUint16(page[2:], uint16(status)|1<<8)
	if len(action) > 0 {
		binary.LittleEndian.PutUint32(page[4:], uint32(action[0]-'0')|1<<3)
	}
	if c.LogAction != 0 {
		binary.LittleEndian.PutUint32(page[4:], uint32(c.LogAction))
	}
	_, _ = os.Stdout.Write(page)
	return 0
}

func (c *call) sanitize() int {
	if slices.Contains(c.args, "--sanact=1") {
		if slices.Contains(c.args, "--ause") { // as nvme-cli does, of every version
			fmt.Fprintln(os.Stderr, "SANACT is Exit Failure Mode")
			return 22
		}
		note(c.play("left"), c.line)
		return 0
	}
	for _, a := range c.args {
		if n, ok := strings.CutPrefix(a, "--sanact="); ok {
			if err := os.WriteFile(c.play("action"), []byte(n), 0o600); err != nil {
				panic(err)
			}
			_ = os.Remove(c.play("reads"))
			c.wipe(c.device + "n")
		}
	}
	return 0
}

func (c *call) format() int {
	if _, err := os.Stat(c.play("left")); c.Before == sanitizeFailed && err != nil {
		fmt.Fprintln(os.Stderr, "NVMe status: Sanitize Failed(0x1c)")
		return 1
	}
	for _, a := range c.args {
		if n, ok := strings.CutPrefix(a, "--namespace-id="); ok {
			c.wipe(c.device + "n" + n)
		}
	}
	return 0
}
