package platform

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/machine"
)

// ipmitool is a stand-in for the real program. It is a separate program, because this test binary
// with the race detector takes a hundred times as long to start, and each look runs it many times.
var ipmitool string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ipmitool-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		ipmitool = filepath.Join(dir, "ipmitool")
		build := exec.Command("go", "build", "-o", ipmitool, "testdata/ipmitool/main.go")
		build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the stand-in for ipmitool:", err)
		return 1
	}
	return m.Run()
}

// lab is a machine in a directory.
type lab struct {
	t    *testing.T
	root string
	p    *Platform
	card map[string]string
}

// smbios is a table with a structure of each of these types, and the end.
func smbios(types ...byte) string {
	text := ""
	for _, typ := range append(types, endOfTable) {
		text += string([]byte{typ, 4, 0, 0}) + "\x00\x00"
	}
	return text
}

// newLab is a server with a BIOS, a card and a drive, booted by EFI, without a BMC.
func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, root: t.TempDir(), card: map[string]string{"eth0": "22.39.2048 (MT_0000000838)"}}
	for name, text := range map[string]string{
		"sys/firmware/dmi/tables/DMI":                                smbios(0, 1, 17),
		"sys/class/dmi/id/bios_vendor":                               "American Megatrends Inc.\n",
		"sys/class/dmi/id/bios_version":                              "2.1a  \n",
		"sys/class/dmi/id/bios_date":                                 "03/01/2024\n",
		"sys/class/net/eth0/dev_port":                                "0\n",
		"sys/class/net/lo/address":                                   "00:00:00:00:00:00\n",
		"sys/class/nvme/nvme0/transport":                             "pcie\n",
		"sys/class/nvme/nvme0/serial":                                "S6ABNE0T\n",
		"sys/class/nvme/nvme0/firmware_rev":                          "GDC5602Q\n",
		"sys/class/nvme/nvme1/transport":                             "tcp\n",
		"sys/bus/pci/devices/0000:3b:00.0/class":                     "0x020000\n",
		"sys/bus/pci/devices/0000:3b:00.0/vendor":                    "0x15b3\n",
		"sys/bus/pci/devices/0000:3b:00.0/sriov_numvfs":              "0\n",
		"sys/bus/pci/devices/0000:5e:00.0/class":                     "0x030200\n",
		"sys/bus/pci/devices/0000:5e:00.0/vendor":                    "0x10de\n",
		"proc/driver/nvidia/gpus/0000:5e:00.0/information":           "Model: \t\t NVIDIA H100\nVideo BIOS: \t 96.00.74.00.01\n",
		"sys/bus/pci/devices/0000:8e:00.0/class":                     "0x120000\n",
		"sys/bus/pci/devices/0000:8e:00.0/vendor":                    "0x1002\n",
		"sys/bus/pci/devices/0000:8e:00.0/vbios_version":             "113-M3000100-102\n",
		"sys/bus/pci/devices/0000:03:00.0/class":                     "0x030000\n", // an ASPEED's screen
		"sys/bus/pci/devices/0000:03:00.0/vendor":                    "0x1a03\n",
		"sys/firmware/efi/efivars/BootOrder-" + global:               "\x07\x00\x00\x00\x01\x00\x00\x00",
		"sys/firmware/efi/efivars/BootCurrent-" + global:             "\x06\x00\x00\x00\x01\x00",
		"sys/firmware/efi/efivars/Boot0001-" + global:                "\x07\x00\x00\x00debian",
		"sys/firmware/efi/efivars/SecureBoot-" + global:              "\x06\x00\x00\x00\x01",
		"sys/firmware/efi/efivars/SetupMode-" + global:               "\x06\x00\x00\x00\x00",
		"sys/firmware/efi/efivars/PK-" + global:                      "\x27\x00\x00\x00key",
		"sys/firmware/efi/efivars/db-" + security:                    "\x27\x00\x00\x00keys",
		"sys/firmware/efi/efivars/MokListRT-" + shim:                 "\x06\x00\x00\x00moks",
		"sys/firmware/efi/efivars/MTC-eb704011-1402-11d3-8e77-00a0c": "counter",
		"play/.keep": "",
	} {
		l.put(name, text)
	}
	l.ok(os.Symlink("../../../devices/pci0000:3a/0000:3b:00.0", filepath.Join(l.root, "sys/class/net/eth0/device")))
	l.ok(os.MkdirAll(filepath.Join(l.root, "sys/devices/pci0000:3a/0000:3b:00.0"), 0o755))
	m, err := machine.Open(l.root)
	l.ok(err)
	commands, err := command.New(l.root, time.Now)
	l.ok(err)
	commands.Pause = time.Millisecond
	commands.Account = func(string) (*syscall.Credential, error) {
		return &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()), NoSetGroups: true}, nil
	}
	l.p = &Platform{Machine: m, Commands: commands, CardFirmware: func(name string) (string, error) {
		version, ok := l.card[name]
		if !ok {
			return "", errors.New("no such device")
		}
		return version, nil
	}}
	t.Cleanup(func() { l.ok(errors.Join(m.Close(), commands.Close())) })
	return l
}

// withBMC adds a BMC with a network and its own bus, hand-written in ipmitool's form.
func (l *lab) withBMC() *lab {
	l.t.Helper()
	l.put("sys/firmware/dmi/tables/DMI", smbios(0, 1, 38))
	to := filepath.Join(l.root, "usr/bin/ipmitool")
	l.ok(os.MkdirAll(filepath.Dir(to), 0o755))
	l.ok(os.Link(ipmitool, to))
	for question, file := range map[string]string{"mc info": "mc_info", "channel info 1": "channel_lan", "channel info 2": "channel_bus", "channel getaccess 1": "users", "lan print 1": "lan"} {
		l.says(question, written(l.t, file))
	}
	return l
}

// written is a hand-written output of ipmitool.
func written(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata/handwritten", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func (l *lab) says(question, text string) { l.put("play/"+question, text) }

func (l *lab) asked() []string {
	raw, _ := os.ReadFile(filepath.Join(l.root, "play/log"))
	return strings.Fields(strings.ReplaceAll(string(raw), " ", "_"))
}

func (l *lab) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) put(name, text string) {
	l.t.Helper()
	name = filepath.Join(l.root, name)
	l.ok(os.MkdirAll(filepath.Dir(name), 0o755))
	l.ok(os.WriteFile(name, []byte(text), 0o644))
}

func (l *lab) lose(name string) {
	l.t.Helper()
	if _, err := os.Lstat(filepath.Join(l.root, name)); err != nil {
		l.t.Fatal(err)
	}
	l.ok(os.RemoveAll(filepath.Join(l.root, name)))
}

// read is a separate look, as lines of NAME = VALUE.
func (l *lab) read(check string) (lines []string, absent string, err error) {
	l.p.controller = nil
	r, err := l.p.Read(l.t.Context(), check)
	for _, s := range r.Settings {
		lines = append(lines, s.Name+" = "+s.Value)
	}
	return lines, r.Absent, err
}

// whole is read without a missing part.
func (l *lab) whole(check string) []string {
	l.t.Helper()
	lines, absent, err := l.read(check)
	l.ok(err)
	if absent != "" {
		l.t.Fatalf("%s does not apply: %s", check, absent)
	}
	return lines
}

func (l *lab) want(check string, want ...string) {
	l.t.Helper()
	if got := l.whole(check); !slices.Equal(got, want) {
		l.t.Errorf("%s is\n%s\nwant\n%s", check, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
