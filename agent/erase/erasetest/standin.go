// Package erasetest simulates nvme, hdparm and blkdiscard. Run implements these programs, linked
// into a root directory, with the drives (Drive) described by a test. Only the options used by the
// agent are simulated.
package erasetest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Drive is a simulated drive.
type Drive struct {
	Serial, Model       string
	OACS, FNA, SANICAP  int64
	Namespaces, Hidden  []int    // Hidden only with --all
	FLBAS               int64    // of each namespace
	Refuse              []string // parts of command lines that exit with 1
	Garbage             []string // parts of command lines that print nonsense
	Before              int      // status of the log page before any sanitize
	Log                 []int    // statuses after a sanitize; the last repeats
	LogAction           int      // action in the log page in place of the requested action
	Lies                bool     // reports success, and erases nothing
	Hang                string   // part of a command line that never ends
	Dies                string   // part of a command line that a signal ends
	Silences            string   // part of a command line after which hdparm -I fails
	Supported, Enhanced bool
	Frozen              bool
	Password            string // "", "ours", "theirs"
	Locked              bool
	KeepsPassword       bool // after an erase
}

// Run is the program named tool: it prints the program's output and returns its exit status.
func Run(tool string, args []string) int {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	root := strings.TrimSuffix(exe, "/usr/sbin/"+tool)
	line := tool + " " + strings.Join(args, " ")
	note(filepath.Join(root, "play/log"), line)
	device := filepath.Base(args[len(args)-1])
	state := filepath.Join(root, "play", device+".json")
	p := Read(state)
	has := func(part string) bool { return slices.Contains(args, part) }
	silent := filepath.Join(root, "play/silent")
	if p.Silences != "" && strings.Contains(line, p.Silences) {
		note(silent, "")
	}
	switch {
	case slices.ContainsFunc(p.Refuse, func(part string) bool { return strings.Contains(line, part) }):
		fmt.Fprintln(os.Stderr, "NVMe status: Invalid Field in Command(0x2002)")
		return 1
	case slices.ContainsFunc(p.Garbage, func(part string) bool { return strings.Contains(line, part) }):
		fmt.Println("\x1b[2Jnonsense {")
		return 0
	case p.Hang != "" && strings.Contains(line, p.Hang):
		note(filepath.Join(root, "play/hangs"), line)
		for {
			time.Sleep(time.Hour)
		}
	case p.Dies != "" && strings.Contains(line, p.Dies):
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	switch args[0] {
	case "id-ctrl":
		return show(map[string]any{"vid": 6966, "sn": p.Serial + "    ", "mn": p.Model + "   ", "oacs": p.OACS, "fna": p.FNA, "sanicap": p.SANICAP})
	case "id-ns":
		return show(map[string]any{"nsze": 16384, "flbas": p.FLBAS})
	case "list-ns":
		ids := slices.Clone(p.Namespaces)
		if has("--all") {
			ids = append(ids, p.Hidden...)
		}
		list := []map[string]any{}
		for _, id := range ids {
			list = append(list, map[string]any{"nsid": id})
		}
		return show(map[string]any{"nsid_list": list})
	case "sanitize-log":
		return p.log(root)
	case "sanitize":
		if has("--sanact=1") {
			if has("--ause") { // as nvme-cli does, of every version
				fmt.Fprintln(os.Stderr, "SANACT is Exit Failure Mode")
				return 22
			}
			note(filepath.Join(root, "play/left"), line)
			return 0
		}
		for _, a := range args {
			if n, ok := strings.CutPrefix(a, "--sanact="); ok {
				if err := os.WriteFile(filepath.Join(root, "play/action"), []byte(n), 0o600); err != nil {
					panic(err)
				}
				_ = os.Remove(filepath.Join(root, "play/reads"))
				p.wipe(root, device+"n")
			}
		}
		return 0
	case "format":
		if _, err := os.Stat(filepath.Join(root, "play/left")); p.Before == sanitizeFailed && err != nil {
			fmt.Fprintln(os.Stderr, "NVMe status: Sanitize Failed(0x1c)")
			return 1
		}
		for _, a := range args {
			if n, ok := strings.CutPrefix(a, "--namespace-id="); ok {
				p.wipe(root, device+"n"+n)
			}
		}
		return 0
	case "--force": // blkdiscard
		return 0
	case "-I":
		if _, err := os.Stat(silent); err == nil {
			fmt.Fprintln(os.Stderr, "HDIO_DRIVE_CMD(identify) failed: Input/output error")
			return 5
		}
		return p.identify()
	}
	verb := args[2] // hdparm --user-master u --security-...
	switch {
	case p.Frozen:
		fmt.Fprintln(os.Stderr, "SG_IO: bad/missing sense data")
		return 5
	case verb == "--security-set-pass":
		p.Password = "ours"
	case p.Password != "ours":
		fmt.Fprintln(os.Stderr, "SG_IO: bad/missing sense data")
		return 5
	case verb == "--security-unlock":
		p.Locked = false
	case verb == "--security-disable":
		p.Password = ""
	default:
		p.wipe(root, device)
		if !p.KeepsPassword {
			p.Password = ""
		}
	}
	Write(state, p)
	return 0
}

func (p Drive) log(root string) int {
	page := make([]byte, 512)
	action, err := os.ReadFile(filepath.Join(root, "play/action"))
	status := p.Before
	reads, _ := os.ReadFile(filepath.Join(root, "play/reads"))
	if n := len(reads); err == nil || p.Before == sanitizeRunning {
		if status = p.Log[min(n, len(p.Log)-1)]; err != nil && status != sanitizeRunning {
			status = sanitizeNever
		}
		note(filepath.Join(root, "play/reads"), "")
		binary.LittleEndian.PutUint16(page, uint16(65535*(n+1)/(len(p.Log)+1)))
	}
	binary.LittleEndian.PutUint16(page[2:], uint16(status)|1<<8)
	if len(action) > 0 {
		binary.LittleEndian.PutUint32(page[4:], uint32(action[0]-'0')|1<<3)
	}
	if p.LogAction != 0 {
		binary.LittleEndian.PutUint32(page[4:], uint32(p.LogAction))
	}
	_, _ = os.Stdout.Write(page)
	return 0
}

func (p Drive) identify() int {
	is := func(on bool, text string) string {
		if on {
			return "\t\t" + text
		}
		return "\tnot\t" + text
	}
	fmt.Printf("\n/dev/sda:\n\nATA device, with non-removable media\n\tModel Number:       %s extra   \n\tSerial Number:      %s\nStandards:\n\tSupported: 10 9\nCapabilities:\n\tLBA, IORDY(can be disabled)\n", p.Model, p.Serial)
	if p.Supported {
		fmt.Println("Security: \n\tMaster password revision code = 65534\n\t\tsupported")
		fmt.Println(is(p.Password != "", "enabled") + "\n" + is(p.Locked, "locked") + "\n" + is(p.Frozen, "frozen") + "\n\tnot\texpired: security count\n" + is(p.Enhanced, "supported: enhanced erase"))
		fmt.Println("\t2min for SECURITY ERASE UNIT. 2min for ENHANCED SECURITY ERASE UNIT.\nLogical Unit WWN Device Identifier: 5002538d00000001\nChecksum: correct")
	}
	return 0
}

// wipe empties the disks whose names have the prefix, as an erase does.
func (p Drive) wipe(root, prefix string) {
	if p.Lies {
		return
	}
	names, _ := filepath.Glob(filepath.Join(root, "dev", prefix+"*"))
	for _, name := range names {
		st, err := os.Stat(name)
		if err == nil {
			err = os.WriteFile(name, make([]byte, st.Size()), 0o600)
		}
		if err != nil {
			panic(err)
		}
	}
}

func show(v any) int {
	if err := json.NewEncoder(os.Stdout).Encode(v); err != nil {
		panic(err)
	}
	return 0
}

// The statuses of a sanitize log page: NVM Express Base Specification, 5.1.12.1.33.
const (
	sanitizeNever   = 0
	sanitizeRunning = 2
	sanitizeFailed  = 3
)

func note(name, line string) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
	}
	if err != nil {
		panic(err)
	}
	_ = f.Close()
}

func Read(name string) (p Drive) {
	raw, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		panic(err)
	}
	return p
}

// Write writes a drive's state to a file.
func Write(name string, p Drive) {
	raw, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(name, raw, 0o600)
	}
	if err != nil {
		panic(err)
	}
}
