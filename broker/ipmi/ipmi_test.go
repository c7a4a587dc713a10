package ipmi_test

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/ipmi"
	"github.com/hostler/hostler/broker/machines"
	"github.com/hostler/hostler/broker/machines/machinestest"
	"github.com/hostler/hostler/test/ipmisim"
)

// The tests' own program also plays two parts: the machine behind the simulator, and an ipmitool that
// tells how it was called.
func TestMain(m *testing.M) {
	ipmisim.Main()
	if os.Getenv("LC_ALL") == "C" && os.Getenv("HOME") == "/nonexistent" {
		pretend()
	}
	os.Exit(m.Run())
}

type world struct {
	*ipmisim.BMC
	t *testing.T
}

func (w world) Open(t *testing.T, password string) machines.Power {
	t.Helper()
	p, err := ipmi.New(ipmi.Config{Address: w.Address, Login: machines.NewLogin(w.User, password)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (w world) Password() string { return w.BMC.Password }
func (w world) Serial() string   { return w.BMC.Serial }
func (w world) Ignore()          { w.BMC.Ignore(w.t) }

func TestARealBMCIsAPowerSwitch(t *testing.T) {
	machinestest.Power(t, func(t *testing.T) machinestest.World {
		w := world{ipmisim.Start(t), t}
		// The simulator does not say when it listens: the first answer says so.
		p := w.Open(t, w.Password())
		for until := time.Now().Add(20 * time.Second); ; {
			if _, err := p.State(t.Context()); err == nil {
				return w
			} else if time.Now().After(until) {
				t.Fatal(err)
			}
		}
	})
}

// pretend is an ipmitool: it leaves how it was called beside itself, and answers what a file says.
func pretend() {
	dir := filepath.Dir(os.Args[0])
	password, _ := os.ReadFile("/dev/fd/3")
	_ = os.WriteFile(filepath.Join(dir, "args"), []byte(strings.Join(os.Args, "\n")), 0o600)
	_ = os.WriteFile(filepath.Join(dir, "env"), []byte(strings.Join(os.Environ(), "\n")), 0o600)
	_ = os.WriteFile(filepath.Join(dir, "password"), password, 0o600)
	if _, err := os.Stat(filepath.Join(dir, "hang")); err == nil {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, os.Interrupt)
		<-stop
	}
	answer, _ := os.ReadFile(filepath.Join(dir, "answer"))
	_, _ = os.Stdout.Write(answer)
	if said, err := os.ReadFile(filepath.Join(dir, "fail")); err == nil {
		if len(said) > 0 {
			_, _ = os.Stderr.Write(said)
			os.Exit(1)
		}
		_, _ = os.Stderr.Write(append([]byte("Error: bad password "), password...))
		os.Exit(1)
	}
	os.Exit(0)
}

// pretended is a BMC behind the pretended ipmitool, and the folder of its files.
func pretended(t *testing.T) (machines.Power, func(name, text string), func(name string) string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tool := filepath.Join(dir, "ipmitool")
	if err := os.Symlink(self, tool); err != nil {
		t.Fatal(err)
	}
	p, err := ipmi.New(ipmi.Config{Address: "10.0.0.7", Login: machines.NewLogin("root", "s3cret-pw"), Program: tool})
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	return p, write, read
}

func TestThePasswordIsInNoArgumentAndNoEnvironment(t *testing.T) {
	p, write, read := pretended(t)
	write("answer", "Chassis Power is on\n")
	if s, err := p.State(t.Context()); s != machines.On || err != nil {
		t.Fatal(s, err)
	}
	if got := read("password"); got != "s3cret-pw\n" {
		t.Errorf("the program read %q as its password", got)
	}
	for _, name := range []string{"args", "env"} {
		if strings.Contains(read(name), "s3cret-pw") {
			t.Errorf("the password is in its %s", name)
		}
	}
	if want := "-I\nlanplus\n-H\n10.0.0.7\n-p\n623\n-U\nroot\n-f\n/dev/fd/3\n-N\n1\n-R\n2\n-L\nOPERATOR\nchassis\npower\nstatus"; !strings.HasSuffix(read("args"), want) {
		t.Errorf("called with %q", read("args"))
	}
	write("fail", "")
	if err := p.TurnOn(t.Context()); err == nil || strings.Contains(err.Error(), "s3cret-pw") {
		t.Errorf("what the program prints is in the error: %v", err)
	}
}

func TestAnAnswerThatIsNotUnderstoodIsAnError(t *testing.T) {
	p, write, _ := pretended(t)
	for _, answer := range []string{
		"", "Chassis Power is on", "Chassis Power is ON\n", "Chassis Power is on\nChassis Power is off\n", "\nChassis Power is on\n",
		strings.Repeat("x", 1<<20),
	} {
		write("answer", answer)
		if s, err := p.State(t.Context()); s != machines.Unknown || broker.AsError(err).Code != machines.CodeAnswerInvalid {
			t.Errorf("%.40q: %s, %v", answer, s, err)
		}
	}
	write("answer", "Chassis Power Control: Down/Off\n")
	if err := p.TurnOn(t.Context()); broker.AsError(err).Code != machines.CodeAnswerInvalid {
		t.Errorf("a BMC that says off when it was asked for on: %v", err)
	}
}

// Only a completion code of the BMC says that nothing was done.
func TestAFailureWithoutAnAnswerLeavesTheResultOpen(t *testing.T) {
	p, write, _ := pretended(t)
	for said, want := range map[string]string{
		"Error: Unable to establish IPMI v2 / RMCP+ session\n":                                         machines.CodeUnreachable,
		"Unable to set Chassis Power Control to Up/On\n":                                               machines.CodeUnreachable,
		"Unable to get Chassis Power Status\n":                                                         machines.CodeUnreachable,
		"Set Chassis Power Control to Up/On failed: Insufficient privilege level\n":                    machines.CodeRefused,
		"Set Chassis Power Control to Up/On failed: Command not supported in present state\n":          machines.CodeRefused,
		"Get Chassis Power Status failed: Node busy\n":                                                 machines.CodeRefused,
		"IPMI LAN send command failed\nUnable to set Chassis Power Control to Up/On\n":                 machines.CodeUnreachable,
		"Set Session Privilege Level to OPERATOR failed: Unknown (0x81)\nError: Unable to establish\n": machines.CodeUnreachable,
		"Set Chassis Power Control to Up/On failed:\n":                                                 machines.CodeUnreachable,
		"said: Set Chassis Power Control to Up/On failed: Node busy\n":                                 machines.CodeUnreachable,
		"Set Chassis Power Control to Up/On failed: Timeout\n":                                         machines.CodeUnreachable,
		"Segmentation fault\n": machines.CodeUnreachable,
	} {
		write("fail", said)
		if err := p.TurnOn(t.Context()); broker.AsError(err).Code != want {
			t.Errorf("%q: %v, not %s", said, err, want)
		}
	}
}

func TestAProgramThatHangsIsKilled(t *testing.T) {
	p, write, _ := pretended(t)
	write("hang", "")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.TurnOn(ctx); broker.AsError(err).Code != machines.CodeUnreachable {
		t.Error(err)
	}
}

func TestAnAddressAndALoginAreChecked(t *testing.T) {
	for _, c := range []struct {
		address, user, password string
		code                    string
	}{
		{"10.0.0.7", "root", "pw", ""},
		{"10.0.0.7:6230", "root", "pw", ""},
		{"bmc.example", "root", "pw", ""},
		{"fd00::7", "root", "pw", ""},
		{"-H", "root", "pw", "bmc_address_invalid"},
		{"10.0.0.7 -x", "root", "pw", "bmc_address_invalid"},
		{"10.0.0.7:0", "root", "pw", "bmc_address_invalid"},
		{"10.0.0.7", "", "pw", "bmc_login_invalid"},
		{"10.0.0.7", "a-user-of-17-bytes", "pw", "bmc_login_invalid"},
		{"10.0.0.7", "root", "", "bmc_login_invalid"},
		{"10.0.0.7", "root", "a-password-of-21-bytes", "bmc_login_invalid"},
		{"10.0.0.7", "root", "two\nlines", "bmc_login_invalid"},
	} {
		_, err := ipmi.New(ipmi.Config{Address: c.address, Login: machines.NewLogin(c.user, c.password)})
		if err == nil && c.code != "" || err != nil && broker.AsError(err).Code != c.code {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
