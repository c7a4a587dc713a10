package lab

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hostler/hostler/test/loopback"
)

// Lab is one site.
type Lab struct {
	bin string // folder of the programs
	dir string // folder of everything that the lab writes
	// guestSeesHostAt is this machine's address for guests.
	guestSeesHostAt string

	mu        sync.Mutex
	broker    *exec.Cmd
	brokerEnd chan error
	agentAddr string // kept over restarts, because nodes know it
	adminAddr string
	relayAddr string // of terminals, kept over restarts too
	log       *os.File
	changed   string // a modified broker's program; empty for the unmodified broker
	roots     string // a file with the authorities that the broker believes; empty: those of the system
	hosts     string // a file that the broker has as /etc/hosts; empty: that of the system
}

// New makes a lab with the programs of bin. Nothing runs yet. The caller must
// Close it.
func New(bin, guestSeesHostAt string) (*Lab, error) {
	for _, program := range []string{"hostler-broker", "hostler-agent", "hostler"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			return nil, fmt.Errorf("cannot find %s (make build): %w", program, err)
		}
	}
	l := &Lab{bin: bin, guestSeesHostAt: guestSeesHostAt}
	var err error
	for _, address := range []*string{&l.agentAddr, &l.adminAddr, &l.relayAddr} {
		if *address, err = loopback.Address(); err != nil {
			return nil, err
		}
	}
	if l.dir, err = os.MkdirTemp("", "hostler-lab-"); err != nil {
		return nil, err
	}
	if l.log, err = os.Create(filepath.Join(l.dir, "broker.log")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(l.dir))
	}
	return l, nil
}

// DataDir is the broker's data folder.
func (l *Lab) DataDir() string { return filepath.Join(l.dir, "broker") }

// Path returns a path for a file of the caller's.
func (l *Lab) Path(name string) string { return filepath.Join(l.dir, name) }

// AgentAddress is where nodes on this machine reach the broker.
func (l *Lab) AgentAddress() string { return l.agentAddr }

// AdminAddress is where operators reach the broker.
func (l *Lab) AdminAddress() string { return l.adminAddr }

// RelayAddress is where the nodes' side of terminals comes in, on this machine.
func (l *Lab) RelayAddress() string { return l.relayAddr }

// BrokerLog returns the broker's output so far.
func (l *Lab) BrokerLog() string {
	text, err := os.ReadFile(l.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// StartBroker starts the broker and returns once it is ready. A restarted broker keeps its
// addresses.
func (l *Lab) StartBroker(ctx context.Context, flags ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	args := append([]string{
		"serve", "--data-dir", l.DataDir(), "--listen", l.adminAddr, "--agent-listen", l.agentAddr, "--relay-listen", l.relayAddr,
		"--advertise", l.guestSeesHostAt,
	}, flags...)
	argv := append([]string{cmp.Or(l.changed, filepath.Join(l.bin, "hostler-broker"))}, args...)
	if l.hosts != "" {
		argv = slices.Concat([]string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, l.hosts}, argv)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = l.log
	if l.roots != "" {
		cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+l.roots)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ready, end := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(l.log, lines.Text())
			if strings.HasPrefix(lines.Text(), "ready") {
				ready <- struct{}{}
			}
		}
		end <- cmd.Wait()
	}()
	l.broker, l.brokerEnd = cmd, end
	select {
	case <-ready:
		return nil
	case err := <-end:
		return fmt.Errorf("the broker ended before it was ready: %w\n%s", err, l.BrokerLog())
	case <-ctx.Done():
		return fmt.Errorf("the broker was not ready in time: %w\n%s", context.Cause(ctx), l.BrokerLog())
	}
}

// Believe makes the authorities of a PEM file the only ones that a broker believes that starts from now on.
func (l *Lab) Believe(file string) { l.roots = file }

// Knows gives a broker that starts from now on a file of its own as /etc/hosts. It needs root.
func (l *Lab) Knows(file string) { l.hosts = file }

// BrokerPID is the process id of the running broker, 0 if none runs.
func (l *Lab) BrokerPID() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broker == nil {
		return 0
	}
	return l.broker.Process.Pid
}

// KillBroker kills the broker, like a power cut.
func (l *Lab) KillBroker() error { return l.signalBroker(syscall.SIGKILL) }

// StopBroker asks the broker to drain and waits for its end.
func (l *Lab) StopBroker() error { return l.signalBroker(syscall.SIGTERM) }

func (l *Lab) signalBroker(sig syscall.Signal) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broker == nil {
		return nil
	}
	if err := syscall.Kill(l.broker.Process.Pid, sig); err != nil {
		return err
	}
	err := <-l.brokerEnd
	l.broker = nil
	if sig == syscall.SIGKILL {
		return nil
	}
	return err
}

// ExitError is a program's failure as a script sees it.
type ExitError struct {
	Args   []string
	Code   int
	Stderr string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("hostler %s: exit %d: %s", strings.Join(e.Args, " "), e.Code, strings.TrimSpace(e.Stderr))
}

// Hostler runs the operator's command line as the lab's administrator and returns the output.
func (l *Lab) Hostler(ctx context.Context, args ...string) (string, error) {
	return l.HostlerAs(ctx, "", nil, args...)
}

// HostlerAs is Hostler with another bearer token and with standard input.
func (l *Lab) HostlerAs(ctx context.Context, token string, stdin io.Reader, args ...string) (string, error) {
	return l.run(ctx, token, stdin, io.Discard, args...)
}

// HostlerLive is Hostler with another bearer token, if one is named, that also copies the program's progress to w as it comes. If w is a file,
// the program writes to it directly, and draws on it if the file is a terminal; an error then
// contains none of the output.
func (l *Lab) HostlerLive(ctx context.Context, token string, w io.Writer, args ...string) (string, error) {
	return l.run(ctx, token, nil, w, args...)
}

// HostlerOffline is Hostler without a configured broker.
func (l *Lab) HostlerOffline(ctx context.Context, args ...string) (string, error) {
	return l.runWith(ctx, filepath.Join(l.dir, "none.yaml"), "", nil, io.Discard, args...)
}

func (l *Lab) run(ctx context.Context, token string, stdin io.Reader, live io.Writer, args ...string) (string, error) {
	return l.runWith(ctx, filepath.Join(l.DataDir(), "client.yaml"), token, stdin, live, args...)
}

func (l *Lab) runWith(ctx context.Context, config, token string, stdin io.Reader, live io.Writer, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, "hostler"), append([]string{"--config", config}, args...)...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "XDG_CONFIG_HOME="+l.dir)
	// A terminal sends Ctrl-C to the whole group of its program. The program alone receives it, and
	// ends this command with ctx.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if token != "" {
		cmd.Env = append(cmd.Env, "HOSTLER_TOKEN="+token)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, io.MultiWriter(&stderr, live)
	if terminal, is := live.(*os.File); is {
		cmd.Stderr = terminal
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return stdout.String(), &ExitError{Args: args, Code: exit.ExitCode(), Stderr: stderr.String()}
	}
	return stdout.String(), err
}

// CreateToken makes a bearer token on the broker's machine and returns its secret.
func (l *Lab) CreateToken(ctx context.Context, name, role string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, "hostler-broker"), "token", "create", "--data-dir", l.DataDir(), "--name", name,
		"--role", role)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("hostler-broker token create: %w: %s", err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// JSON runs a command with -o json and decodes its output. A failing command also prints what it
// knows, so out is filled then, too.
func (l *Lab) JSON(ctx context.Context, out any, args ...string) error {
	text, err := l.Hostler(ctx, append(args, "-o", "json")...)
	if jsonErr := json.Unmarshal([]byte(text), out); err == nil && jsonErr != nil {
		return fmt.Errorf("hostler %s: cannot read %q: %w", strings.Join(args, " "), text, jsonErr)
	}
	return err
}

// WaitNode waits until the node has the status.
func (l *Lab) WaitNode(ctx context.Context, node, status string) error {
	// An enrolment takes most of a minute and needs the core that polling would take.
	return l.wait(ctx, time.Second, fmt.Sprintf("node %s %s", node, status), func() error {
		var n struct {
			Status string `json:"status"`
		}
		if err := l.JSON(ctx, &n, "node", "show", node); err != nil {
			return err
		}
		if n.Status != status {
			return fmt.Errorf("it is %s", n.Status)
		}
		return nil
	})
}

// Wait polls a condition until it holds or ctx ends; the error then contains the last result.
func (l *Lab) Wait(ctx context.Context, what string, look func() error) error {
	return l.wait(ctx, 300*time.Millisecond, what, look)
}

func (l *Lab) wait(ctx context.Context, every time.Duration, what string, look func() error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := look()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, err)
		case <-ticker.C:
		}
	}
}

// Close ends the broker and removes the lab's directory.
func (l *Lab) Close() error {
	killed := l.KillBroker()
	return errors.Join(killed, l.log.Close(), os.RemoveAll(l.dir))
}
