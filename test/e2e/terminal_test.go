//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/test/lab"
)

// terminal is a session in the guest, by the operator's command line on a terminal.
type terminal struct {
	*lab.Terminal
	*site
	id string
}

var sessionName = regexp.MustCompile(`session (ts-[a-z0-9]+) as `)

// shell opens a session and gives its shell no prompt and a variable.
func (s *site) shell(args ...string) *terminal {
	s.t.Helper()
	far, err := s.Terminal(append([]string{"terminal", node}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(far.Close)
	t := &terminal{far, s, ""}
	t.shows("what it shows is recorded")
	t.id = sessionName.FindStringSubmatch(far.Text())[1]
	t.says("PS1=; HERE=kept; echo ready=$((6*7))", "ready=42")
	return t
}

// says types a line and waits for its output. The output must differ from the line, because the
// terminal echoes the line.
func (t *terminal) says(line, shows string) {
	t.t.Helper()
	if err := t.Does(t.ctx, line, shows); err != nil {
		t.t.Fatal(err)
	}
}

func (t *terminal) shows(texts ...string) string {
	t.t.Helper()
	which, err := t.Shows(t.ctx, texts...)
	if err != nil {
		t.t.Fatal(err)
	}
	return which
}

func (t *terminal) types(text string) {
	t.t.Helper()
	if err := t.Type(text); err != nil {
		t.t.Fatal(err)
	}
}

// goesOn checks that the same shell still answers.
func (t *terminal) goesOn(mark string) {
	t.t.Helper()
	t.says("echo "+mark+"-$HERE-$((6*7))", mark+"-kept-42")
}

func (t *terminal) ends(status int) {
	t.t.Helper()
	got, err := t.End(t.ctx)
	if err != nil || got != status {
		t.t.Errorf("its exit status is %d (%v), want %d: %q", got, err, status, t.Text())
	}
}

// session holds the broker's fields of a session.
type session struct {
	Status     string    `json:"status"`
	EndCode    string    `json:"end_code"`
	ExitStatus *int      `json:"exit_status"`
	ClosedAt   time.Time `json:"closed_at"`
}

// closed waits until the broker records the session's end and nothing of the session is left on the
// node: no unit, process, cgroup or terminal. The recording is complete.
func (t *terminal) closed() (is session) {
	s := t.site
	s.t.Helper()
	err := s.Wait(s.ctx, "the end of session "+t.id, func() error {
		if s.json(&is, "terminal", "show", t.id); is.Status != "closed" {
			return fmt.Errorf("it is %s", is.Status)
		}
		return nil
	})
	if err == nil {
		err = s.Wait(s.ctx, "nothing to be left of session "+t.id, func() error { return s.remains(t.id) })
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.hostler("recording", "verify", t.id)
	return is
}

// remains reports what is left of a session on the node.
func (s *site) remains(id string) error {
	unit := "hostler-terminal-" + id + ".service"
	var left []string
	for what, argv := range map[string][]string{
		"unit":    {"systemctl", "list-units", "--all", "--no-legend", "--plain", unit},
		"cgroup":  {"find", "/sys/fs/cgroup", "-name", unit},
		"folder":  {"find", "/run/hostler-terminal", "-name", id},
		"process": {"pgrep", "-af", "hostler-agent[ ]session " + id + "$"},
	} {
		// pgrep fails if it finds nothing, and find fails if a folder does not exist.
		r, err := s.guest.Run(s.ctx, argv...)
		if err != nil && r.Exit == 0 {
			return err
		}
		if text := strings.TrimSpace(r.Stdout); text != "" {
			left = append(left, what+" "+text)
		}
	}
	if len(left) > 0 {
		return errors.New(strings.Join(left, "; "))
	}
	return nil
}

// terminals counts the pseudoterminals in the guest.
func (s *site) terminals() int {
	s.t.Helper()
	n, err := strconv.Atoi(s.root("cat", "/proc/sys/kernel/pty/nr"))
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// The sessions run on one node with a tenant, in sequence; at the end the tenant is removed.
func TestTerminalsOfANode(t *testing.T) {
	s := enrolled(t)
	s.provision("a-1", "alice")
	before := s.terminals()
	s.part("AUsersShell", usersShell)
	s.part("AProgram", aProgram)
	s.part("NobodyIsRoot", nobodyIsRoot)
	s.part("TheAgentMayGo", theAgentMayGo)
	s.part("TheBrokerMayGo", theBrokerMayGo)
	s.part("TheSessionsProcessIsKilled", sessionsProcessKilled)
	s.part("TheNodeIsQuarantined", nodeIsQuarantined)
	s.part("ItsUserIsRevoked", itsUserIsRevoked)
	if after := s.terminals(); after != before {
		t.Errorf("%d pseudoterminals are there, and %d were before", after, before)
	}
	s.hostler("audit", "verify")
}

func usersShell(s *site) {
	t := s.shell("--reason", "a look")
	t.says("echo who=$(whoami),$(id -u),$(tty | cut -c1-9)=", "who=alice,"+s.root("id", "-u", "alice")+",/dev/pts/=")
	t.says("stty size", "24 80")
	if err := t.Resize(132, 50); err != nil {
		s.t.Fatal(err)
	}
	t.says("until stty size | grep -x '50 132'; do :; done; echo resized=$((6*7))", "resized=42")
	// The shell inherits neither environment nor descriptors of the session's process.
	t.says("echo leaks=$(env | grep -ciE 'hostler|token|invocation|notify|journal|listen_|runtime_dir')=", "leaks=0=")
	t.says("ls -l /proc/$$/fd > fds; echo descriptors=$(grep -cvE '/dev/(pts/[0-9]+|tty)$|^total' fds)=", "descriptors=0=")
	// Ctrl-C arrives while a program writes without end.
	t.types("yes\r")
	t.shows("y\r\ny\r\ny\r\n")
	t.types("\x03")
	t.goesOn("interrupted")
	// The output's escape sequences do not reach the operator's terminal.
	t.says(`printf '\033]0;owned\007\033]52;c;eA==\007%s\n' "drawn=$((6*7))"`, "drawn=42")
	if text := t.Text(); strings.Contains(text, "\x1b]") {
		s.t.Errorf("%q", text)
	}
	t.types("exit 7\r")
	t.ends(7)
	if is := t.closed(); is.EndCode != "terminal_exited" || is.ExitStatus == nil || *is.ExitStatus != 7 {
		s.t.Errorf("%+v", is)
	}
	played, err := s.Hostler(s.ctx, "recording", "play", t.id, "--speed", "0")
	if err != nil || !strings.Contains(played, "who=alice,") || strings.Contains(played, "\x1b]") {
		s.t.Errorf("it is played as %q, %v", played, err)
	}
}

func aProgram(s *site) {
	if out := s.hostler("terminal", node, "--command", "whoami"); out != "alice\r\n" {
		s.t.Errorf("whoami says %q", out)
	}
	_, err := s.Hostler(s.ctx, "terminal", node, "--command", "sh", "-c", "exit 42")
	if exit, is := errors.AsType[*lab.ExitError](err); !is || exit.Code != 42 {
		s.t.Errorf("%v", err)
	}
	// The command's arguments reach it unchanged, whatever a shell would make of them.
	if out := s.hostler("terminal", node, "--command", "printf", "%s\\n", "$(reboot); `id`", "-o json"); out != "$(reboot); `id`\r\n-o json\r\n" {
		s.t.Errorf("%q", out)
	}
	var names []string
	for line := range strings.Lines(s.hostler("terminal", node, "--command", "env")) {
		name, _, _ := strings.Cut(line, "=")
		if name != "TERM" && name != "LANG" && !strings.HasPrefix(name, "LC_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if want := []string{"HOME", "LOGNAME", "PATH", "SHELL", "USER"}; !slices.Equal(names, want) {
		s.t.Errorf("its environment is %q, want %q", names, want)
	}
	// The command's stdin ends.
	out, err := s.HostlerAs(s.ctx, "", strings.NewReader("b\na\n"), "terminal", node, "--command", "sort")
	if err != nil || !strings.HasSuffix(out, "a\r\nb\r\n") {
		s.t.Errorf("%q, %v", out, err)
	}
}

func nobodyIsRoot(s *site) {
	for user, want := range map[string]string{"root": "terminal_root_refused", "daemon": "terminal_user_refused", "../root": "terminal_user_refused", "alice;id": "terminal_user_refused"} {
		_, err := s.Hostler(s.ctx, "terminal", node, "--user", user, "--command", "id")
		if exit, is := errors.AsType[*lab.ExitError](err); !is || exit.Code == 0 || !strings.Contains(exit.Stderr, want) {
			s.t.Errorf("as %q: %v", user, err)
		}
	}
}

// A session does not depend on the agent: it survives a restarted and a killed agent.
func theAgentMayGo(s *site) {
	t := s.shell()
	t.goesOn("before")
	s.root("systemctl", "restart", "hostler-agent")
	t.goesOn("restarted")
	s.root("systemctl", "kill", "--signal=KILL", "hostler-agent")
	t.goesOn("killed")
	if strings.Contains(t.Text(), "hostler: ") {
		s.t.Errorf("there was a hiccup: %q", t.Text())
	}
	t.types("~.")
	t.ends(0)
	if is := t.closed(); is.EndCode != "terminal_operator_ended" {
		s.t.Errorf("%+v", is)
	}
}

// Sessions survive a killed broker, with everything typed meanwhile.
func theBrokerMayGo(s *site) {
	t := s.shell()
	if err := s.KillBroker(); err != nil {
		s.t.Fatal(err)
	}
	t.shows("the connection broke: trying again")
	t.types("echo meanwhile-$HERE-$((6*7))\r")
	if err := s.StartBroker(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	t.shows("back, after")
	t.shows("meanwhile-kept-42")
	t.types("exit\r")
	t.ends(0)
	t.closed()
}

// Killing a session's process ends the whole session. The node reports the end; the other sides do
// not wait for its silence, which would give the same end code.
func sessionsProcessKilled(s *site) {
	t := s.shell()
	t.says("setsid sleep 1000 & echo asleep=$((6*7))", "asleep=42")
	s.root("systemctl", "kill", "--signal=KILL", "--kill-whom=main", "hostler-terminal-"+t.id+".service")
	t.ends(1)
	if err := s.Wait(s.ctx, "nothing to be left", func() error { return s.remains(t.id) }); err != nil {
		s.t.Fatal(err)
	}
	if r, _ := s.guest.Run(s.ctx, "pgrep", "-u", "alice"); strings.TrimSpace(r.Stdout) != "" {
		s.t.Errorf("processes of alice are left: %s", r.Stdout)
	}
	if is := t.closed(); is.EndCode != "terminal_gone" {
		s.t.Errorf("it ended with %s", is.EndCode)
	}
	var said struct {
		Items []struct{ Actor, Subject, Reason string }
	}
	s.json(&said, "audit", "list", "--action", "terminal.close", "--limit", "0")
	if !slices.ContainsFunc(said.Items, func(e struct{ Actor, Subject, Reason string }) bool {
		return strings.HasPrefix(e.Actor, "node:") && e.Subject == "terminal/"+t.id && strings.Contains(e.Reason, "(signal)")
	}) {
		s.t.Errorf("its node did not say so: %+v", said.Items)
	}
}

// within is the time limit for a session's end, on two emulated cores. The tests of the broker alone
// hold the limit of a second.
const within = 3 * time.Second

func itsUserIsRevoked(s *site) {
	t := s.shell()
	revoke := s.enqueue("allocation.revoke_user", map[string]any{"allocation_id": "a-1", "username": "alice"})
	if status, err := t.End(s.ctx); err != nil || status != 3 {
		s.t.Errorf("its exit status is %d, %v: %q", status, err, t.Text())
	}
	is := t.closed()
	var asked struct {
		IssuedAt time.Time `json:"issued_at"`
	}
	s.json(&asked, "task", "show", revoke.ID)
	if took := is.ClosedAt.Sub(asked.IssuedAt); took > within {
		s.t.Errorf("it ended %s after its user was revoked (%s)", took, is.EndCode)
	}
	if got := s.end(revoke.ID); got.Status != "succeeded" {
		s.t.Errorf("%+v", got)
	}
}

func nodeIsQuarantined(s *site) {
	t := s.shell()
	asked := time.Now()
	s.hostler("node", "quarantine", node, "--reason", "a look at its disks")
	if status, err := t.End(s.ctx); err != nil || status != 3 {
		s.t.Errorf("its exit status is %d, %v: %q", status, err, t.Text())
	}
	if is := t.closed(); is.ClosedAt.Sub(asked) > within {
		s.t.Errorf("it ended %s after the node was quarantined (%s)", is.ClosedAt.Sub(asked), is.EndCode)
	}
	_, err := s.Hostler(s.ctx, "terminal", node, "--command", "id")
	if exit, is := errors.AsType[*lab.ExitError](err); !is || exit.Code != 3 {
		s.t.Errorf("a quarantined node lets somebody in: %v", err)
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if s.json(&list, "terminal", "list", "--status", "live"); len(list.Items) != 0 {
		s.t.Errorf("sessions are left: %s", list.Items)
	}
	s.hostler("node", "activate", node, "--override", "--reason", "its disks are as they should be")
	if out := s.hostler("terminal", node, "--command", "whoami"); out != "alice\r\n" {
		s.t.Errorf("after it, whoami says %q", out)
	}
}
