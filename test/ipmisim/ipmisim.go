// Package ipmisim starts the BMC simulator of OpenIPMI (ipmi_sim) for tests, with a machine that has power
// and a serial number. The main type is BMC.
//
// The simulator asks a program for the power of its machine. The program is the test itself: its TestMain
// calls Main first. Power is a file, so that the test sees and changes it.
package ipmisim

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The programs that the tests need.
const (
	Simulator = "/usr/bin/ipmi_sim"
	Tool      = "/usr/bin/ipmitool"
)

const word = "ipmisim-chassis"

// Main serves the simulator if the test was started by it, and ends the process.
func Main() {
	if len(os.Args) < 4 || os.Args[1] != word {
		return
	}
	if err := chassis(os.Args[2], os.Args[3:], os.Stdout.WriteString); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// chassis answers "get NAME…" and carries out "set NAME VALUE…".
func chassis(dir string, args []string, say func(string) (int, error)) error {
	if args[0] == "get" {
		for _, name := range args[1:] {
			value := "0"
			if on, err := os.ReadFile(filepath.Join(dir, "power")); name == "power" && err == nil {
				value = string(on)
			}
			if _, err := say(name + ":" + value + "\n"); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, "ignore")); err == nil {
		return nil
	}
	for rest := args[1:]; len(rest) > 1; rest = rest[2:] {
		power := rest[1]
		if rest[0] == "shutdown" {
			power = "0"
		}
		if err := os.WriteFile(filepath.Join(dir, "power"), []byte(power), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// BMC is a running simulator.
type BMC struct {
	Address        string
	User, Password string
	Serial         string

	dir string
	sim *exec.Cmd
}

// Start starts a simulator, whose machine is off, until the test ends. A test is skipped where the
// programs are not installed.
func Start(t testing.TB) *BMC {
	t.Helper()
	for _, p := range []string{Simulator, Tool} {
		if _, err := os.Stat(p); errors.Is(err, os.ErrNotExist) {
			t.Skipf("%s is not installed (.ci/setup test)", p)
		}
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &BMC{Address: fmt.Sprintf("127.0.0.1:%d", port), User: "ADMIN", Password: "s3cret-pw", Serial: "SER-0042", dir: t.TempDir()}
	b.write(t, "fru", string(fru(b.Serial)))
	b.write(t, "lan.conf", fmt.Sprintf(lan, port, self, word, b.dir, b.User, b.Password))
	b.write(t, "commands", fmt.Sprintf(commands, len(fru(b.Serial)), filepath.Join(b.dir, "fru")))
	b.sim = exec.CommandContext(t.Context(), Simulator,
		"-c", filepath.Join(b.dir, "lan.conf"), "-f", filepath.Join(b.dir, "commands"), "-s", b.dir, "-n")
	if err := b.sim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Unplug)
	return b
}

// Unplug stops the simulator.
func (b *BMC) Unplug() {
	_ = b.sim.Process.Kill()
	_ = b.sim.Wait()
}

// Powered reports whether the machine has power.
func (b *BMC) Powered() bool {
	on, _ := os.ReadFile(filepath.Join(b.dir, "power"))
	return string(on) == "1"
}

// Ignore makes the BMC accept requests and do nothing.
func (b *BMC) Ignore(t testing.TB) { b.write(t, "ignore", "") }

func (b *BMC) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func freePort() (int, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	return c.LocalAddr().(*net.UDPAddr).Port, nil
}

const lan = `name "bmc"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 %d
  priv_limit admin
  allowed_auths_callback none md2 md5 straight
  allowed_auths_user none md2 md5 straight
  allowed_auths_operator none md2 md5 straight
  allowed_auths_admin none md2 md5 straight
  guid a123456789abcdefa123456789abcdef
endlan
chassis_control "%s %s %s"
user 1 true "" "test" user 10 none md2 md5 straight
user 2 true "%s" "%s" admin 10 none md2 md5 straight
`

const commands = `mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_add_fru_data 0x20 0 %d file 0 "%s"
mc_enable 0x20
`

// fru is the inventory of a machine in the form of the IPMI FRU specification: a header, and the area
// of the product.
func fru(serial string) []byte {
	area := []byte{1, 0, 25} // version, length, English
	for _, text := range []string{"Acme", "Box 9000", "PN-1", "V1", serial, "", ""} {
		area = append(append(area, 0xC0|byte(len(text))), text...)
	}
	area = append(area, 0xC1) // end of the fields
	for len(area)%8 != 7 {
		area = append(area, 0)
	}
	area[1] = byte((len(area) + 1) / 8)
	header := []byte{1, 0, 0, 0, 1, 0, 0}
	return append(append(header, checksum(header)), append(area, checksum(area))...)
}

// checksum makes the sum of all bytes zero.
func checksum(all []byte) byte {
	var sum byte
	for _, b := range all {
		sum += b
	}
	return -sum
}
