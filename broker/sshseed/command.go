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

// A line is what the deploy user's login shell is given. These two are all there
// are, and both are constants: their parts are the names of files that MAAS chose.
type line string

const (
	// install makes root's files of those that were uploaded. A file is made with
	// mode 0600 before it is filled.
	install line = sudo + "/usr/bin/install -d -o root -g root -m 0755 " + hwsync.Folder +
		and + sudo + "/usr/bin/install -o root -g root -m 0700 -t " + hwsync.Folder + " " + folder + "/" + hwsync.Credentials +
		and + sudo + "/usr/bin/install -o root -g root -m 0644 -t " + hwsync.Units + " " + folder + "/" + hwsync.Service + " " + folder + "/" + hwsync.Timer

	// start has the timer run, now and after each boot, and one sync at once.
	start line = sudo + "/usr/bin/systemctl daemon-reload" +
		and + sudo + "/usr/bin/systemctl enable --now " + hwsync.Timer +
		and + sudo + "/usr/bin/systemctl start --no-block " + hwsync.Service

	sudo = "/usr/bin/sudo -n "
	and  = " && "
)

// run has the machine run a line, which ended where the machine says with which status:
// only then is there a connection to say more on. Its output is for people.
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
		err = errors.New("it says more than anybody wants to know")
	case errors.As(err, &exit):
		ended = true
		err = fmt.Errorf("it ends with status %d: %s", exit.ExitStatus(), m.hide(said.String()))
	default:
		return false, failed(codeOf(err, CommandFailed), m.at, "cannot run a command on the machine", err)
	}
	return ended, failed(CommandFailed, m.at, "a command failed on the machine", err)
}

const (
	kept = 1 << 10  // bytes of what a command says
	most = 64 << 10 // that it may say at all
)

// output keeps the beginning of what a command says, and hangs up on one that does
// not end.
type output struct {
	conn net.Conn

	mu   sync.Mutex // both streams are written to it
	text []byte
	seen int
}

var errFlood = errors.New("too much output")

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p[:min(len(p), kept-len(o.text))]...)
	if o.seen += len(p); o.seen > most {
		_ = o.conn.Close()
		return 0, errFlood
	}
	return len(p), nil
}

func (o *output) flood() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen > most
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// codeOf tells a machine that went away, or was too slow, from one that refused.
func codeOf(err error, refused string) string {
	missing := (*ssh.ExitMissingError)(nil)
	if errors.As(err, &missing) || errors.As(err, new(*net.OpError)) {
		return Unreachable
	}
	for _, gone := range []error{context.DeadlineExceeded, context.Canceled, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, sftp.ErrSSHFxConnectionLost} {
		if errors.Is(err, gone) {
			return Unreachable
		}
	}
	return refused
}
