// Package erasetest simulates nvme, hdparm and blkdiscard. Run implements these programs, linked
// into a root directory, with the drives (Drive) described by a test. Only the options used by the
// agent are simulated.
package erasetest

import (
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
	c := call{root: strings.TrimSuffix(exe, "/usr/sbin/"+tool), line: tool + " " + strings.Join(args, " "), args: args}
	note(c.play("log"), c.line)
	c.device = filepath.Base(args[len(args)-1])
	state := c.play(c.device + ".json")
	c.Drive = Read(state)
	if c.Silences != "" && strings.Contains(c.line, c.Silences) {
		note(c.play("silent"), "")
	}
	if status, has := c.fault(); has {
		return status
	}
	switch tool {
	case "nvme":
		return c.nvme()
	case "hdparm":
		if args[0] == "-I" {
			return c.identify()
		}
		status := c.security()
		if status == 0 {
			Write(state, c.Drive)
		}
		return status
	}
	return 0 // blkdiscard
}

// call is one run of a program.
type call struct {
	Drive
	root, line, device string
	args               []string
}

// play is a file of the simulation.
func (c *call) play(name string) string { return filepath.Join(c.root, "play", name) }

// fault plays the fault that the drive has for this command line, if it has one.
func (c *call) fault() (status int, has bool) {
	said := func(part string) bool { return strings.Contains(c.line, part) }
	switch {
	case slices.ContainsFunc(c.Refuse, said):
		fmt.Fprintln(os.Stderr, "NVMe status: Invalid Field in Command(0x2002)")
		return 1, true
	case slices.ContainsFunc(c.Garbage, said):
		fmt.Println("\x1b[2Jnonsense {")
		return 0, true
	case c.Hang != "" && said(c.Hang):
		note(c.play("hangs"), c.line)
		for {
			time.Sleep(time.Hour)
		}
	case c.Dies != "" && said(c.Dies):
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return 0, false
}

// wipe empties the disks whose names have the prefix, as an erase does.
func (c *call) wipe(prefix string) {
	if c.Lies {
		return
	}
	names, _ := filepath.Glob(filepath.Join(c.root, "dev", prefix+"*"))
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

// Read reads a drive's state from a file.
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
