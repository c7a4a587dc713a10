package sshseed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/taskcatalog/hwsync"
)

// line is a command line for the deploy user's login shell. There are only these two, and both are
// constants: their parts are the names of files that MAAS chose.
type line string

const (
	// install makes root's files from the uploaded ones. A file is made with mode 0600 before it is
	// filled.
	install line = sudo + "/usr/bin/install -d -o root -g root -m 0755 " + hwsync.Folder +
		and + sudo + "/usr/bin/install -o root -g root -m 0700 -t " + hwsync.Folder + " " + folder + "/" + hwsync.Credentials +
		and + sudo + "/usr/bin/install -o root -g root -m 0644 -t " + hwsync.Units + " " + folder + "/" + hwsync.Service + " " + folder +
		"/" + hwsync.Timer

	// start enables the timer, now and after each boot, and starts one sync at once.
	start line = sudo + "/usr/bin/systemctl daemon-reload" +
		and + sudo + "/usr/bin/systemctl enable --now " + hwsync.Timer +
		and + sudo + "/usr/bin/systemctl start --no-block " + hwsync.Service

	sudo = "/usr/bin/sudo -n "
	and  = " && "
)

// run has the machine run a line. ended is true when the machine reports the line's exit status:
// only then is the connection still usable. The line's output is for people.
func (m *machine) run(ctx context.Context, l line) (ended bool, err error) {
	said := &output{conn: m.conn}
	err = within(ctx, m.conn, commands, func() error {
		session, err := m.client.NewSession()
		if err != nil {
			return err
		}
		defer session.Close()
		session.Stdout, session.Stderr = said, said
		return session.Run(string(l))
	})
	if err == nil {
		return true, nil
	}
	exit := (*ssh.ExitError)(nil)
	switch {
	case said.flood():
		err = errors.New("the command's output is too long")
	case errors.As(err, &exit):
		ended = true
		err = fmt.Errorf("the command ended with status %d: %s", exit.ExitStatus(), m.hide(said.String()))
	default:
		return false, failed(codeOf(err, CommandFailed), m.at, "cannot run a command on the machine", err)
	}
	return ended, failed(CommandFailed, m.at, "a command failed on the machine", err)
}

const (
	kept      = 1 << 10  // bytes of a command's output that are kept
	maxOutput = 64 << 10 // limit of a command's output, bytes
)

// output keeps the beginning of a command's output, and closes the connection if the output exceeds
// the limit.
type output struct {
	conn net.Conn

	mu   sync.Mutex // both streams write to the output
	text []byte
	seen int
}

var errFlood = errors.New("too much output")

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p[:min(len(p), kept-len(o.text))]...)
	if o.seen += len(p); o.seen > maxOutput {
		_ = o.conn.Close()
		return 0, errFlood
	}
	return len(p), nil
}

func (o *output) flood() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen > maxOutput
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// codeOf distinguishes an absent or slow machine from a machine that refused.
func codeOf(err error, refused string) string {
	missing := (*ssh.ExitMissingError)(nil)
	if errors.As(err, &missing) || errors.As(err, new(*net.OpError)) {
		return Unreachable
	}
	for _, gone := range []error{
		context.DeadlineExceeded, context.Canceled, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe,
		sftp.ErrSSHFxConnectionLost,
	} {
		if errors.Is(err, gone) {
			return Unreachable
		}
	}
	return refused
}
