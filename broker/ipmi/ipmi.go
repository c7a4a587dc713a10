package ipmi

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/machines"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Config says which BMC is meant.
type Config struct {
	Address string // IP or name, or either with :PORT
	Login   machines.Login
	// Program is ipmitool; empty: that of the distribution.
	Program string
}

const (
	program     = "/usr/bin/ipmitool"
	defaultPort = "623"
	callTime    = 30 * time.Second
	killTime    = 2 * time.Second
	maxAnswer   = 64 << 10 // bytes
	maxUser     = 16       // of IPMI
	maxPassword = 20
)

// BMC is a BMC that speaks IPMI.
type BMC struct {
	host, port, program string
	login               machines.Login
}

var _ machines.Power = (*BMC)(nil)

var nameForm = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)

// New returns a BMC, and opens no connection. Codes: bmc_address_invalid, bmc_login_invalid.
func New(c Config) (*BMC, error) {
	host, port := c.Address, defaultPort
	if h, p, err := net.SplitHostPort(c.Address); err == nil {
		host, port = h, p
	}
	at, err := netip.ParseAddr(host)
	number, bad := strconv.ParseUint(port, 10, 16)
	if err != nil && !nameForm.MatchString(host) || err == nil && at.Zone() != "" || bad != nil || number == 0 {
		return nil, broker.Errorf(broker.Invalid, "bmc_address_invalid", "cannot use the address of the BMC: it is neither HOST nor HOST:PORT")
	}
	user, password := c.Login.Reveal()
	if user == "" || len(user) > maxUser || password == "" || len(password) > maxPassword || bytes.ContainsAny([]byte(user+password), "\x00\r\n") {
		return nil, broker.Errorf(broker.Invalid, "bmc_login_invalid",
			"cannot use the login of the BMC: IPMI has users of 1 to %d bytes, and passwords of 1 to %d", maxUser, maxPassword)
	}
	b := &BMC{host, port, c.Program, c.Login}
	if b.program == "" {
		b.program = program
	}
	return b, nil
}

// Identity implements machines.Power. The serial number is that of the product, in the BMC's FRU 0.
func (b *BMC) Identity(ctx context.Context) (machines.Identity, error) {
	raw, err := b.run(ctx, "read the identity", "fru", "print", "0")
	if err != nil {
		return machines.Identity{}, err
	}
	id, err := parseFRU(raw)
	if err != nil {
		return machines.Identity{}, b.invalid("read the identity")
	}
	return id, nil
}

// State implements machines.Power.
func (b *BMC) State(ctx context.Context) (machines.State, error) {
	raw, err := b.run(ctx, "read the power", "chassis", "power", "status")
	if err != nil {
		return machines.Unknown, err
	}
	state, err := parseState(raw)
	if err != nil {
		return machines.Unknown, b.invalid("read the power")
	}
	return state, nil
}

// TurnOn implements machines.Power.
func (b *BMC) TurnOn(ctx context.Context) error {
	return b.control(ctx, "switch the machine on", "on", "Up/On")
}

// TurnOff implements machines.Power.
func (b *BMC) TurnOff(ctx context.Context, graceful bool) error {
	if graceful {
		return b.control(ctx, "shut the machine down", "soft", "Soft")
	}
	return b.control(ctx, "switch the machine off", "off", "Down/Off")
}

func (b *BMC) control(ctx context.Context, what, verb, word string) error {
	raw, err := b.run(ctx, what, "chassis", "power", verb)
	if err == nil && string(raw) != "Chassis Power Control: "+word+"\n" {
		err = b.invalid(what)
	}
	return err
}

func (b *BMC) invalid(what string) error {
	return broker.Errorf(broker.Refused, machines.CodeAnswerInvalid, "cannot %s: the BMC at %s gives an answer that is not understood", what, b.host)
}

// run runs the program and returns its answer.
func (b *BMC) run(ctx context.Context, what string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	user, password := b.login.Reveal()
	secret, err := pipe(password)
	if err != nil {
		return nil, err
	}
	defer func() { _ = secret.Close() }()
	// A packet is answered within a second; a lost one is sent again by the program.
	c := exec.CommandContext(ctx, b.program, append([]string{
		"-I", "lanplus", "-H", b.host, "-p", b.port, "-U", user, "-f", "/dev/fd/3", "-N", "1", "-R", "2", "-L", "OPERATOR",
	}, args...)...)
	c.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=/nonexistent"}
	c.Dir, c.ExtraFiles, c.WaitDelay = "/", []*os.File{secret}, killTime
	var out, errs bounded
	c.Stdout, c.Stderr = &out, &errs
	err = c.Run()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, broker.Errorf(broker.Refused, "ipmitool_missing", "cannot %s: %s is not installed where the broker runs", what, b.program)
	case ctx.Err() != nil:
		return nil, broker.Errorf(broker.Unavailable, machines.CodeUnreachable, "cannot %s: the BMC at %s does not answer in time", what, b.host)
	case err != nil:
		return nil, b.failed(what, errs.Bytes())
	case out.over:
		return nil, b.invalid(what)
	}
	return out.Bytes(), nil
}

// completed is what ipmitool prints when the BMC answered with a completion code, and open the codes that leave the
// result open.
var completed = lazyregexp.New(`(?m)^(Set|Get) Chassis Power (Control to [A-Za-z/-]{1,20}|Status) failed: [^\n]+$`)

var open = lazyregexp.New(`(?m) failed: (Timeout|Command response could not be provided|Unspecified error)$`)

// failed is the error of a program that failed. Only a completion code says that the BMC did nothing: the program
// also fails where the command was sent and its answer was lost.
func (b *BMC) failed(what string, said []byte) error {
	switch {
	case bytes.Contains(said, []byte("Unable to establish IPMI v2 / RMCP+ session")):
		return broker.Errorf(broker.Unavailable, machines.CodeUnreachable,
			"cannot %s: the BMC at %s does not answer or refuses the login (check its address, network, user and password)", what, b.host)
	case completed.Match(said) && !open.Match(said):
		return broker.Errorf(broker.Refused, machines.CodeRefused, "cannot %s: the BMC at %s refuses it", what, b.host)
	}
	return broker.Errorf(broker.Unavailable, machines.CodeUnreachable,
		"cannot %s: the BMC at %s gives no answer that says whether it was done (look at the power before another try)", what, b.host)
}

// pipe returns the reading end of a pipe with the password.
func pipe(password string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.WriteString(password + "\n") // shorter than a pipe's buffer
	if err = errors.Join(err, w.Close()); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// bounded keeps the beginning of what is written.
type bounded struct {
	bytes.Buffer
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if left := maxAnswer - b.Len(); len(p) > left {
		b.over = true
		b.Buffer.Write(p[:left])
	} else {
		b.Buffer.Write(p)
	}
	return len(p), nil
}
