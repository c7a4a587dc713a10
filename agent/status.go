package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
)

// Phase is the state of an agent's relation to its broker.
type Phase string

// The phases.
const (
	PhaseStarting    Phase = "starting"
	PhaseEnrolling   Phase = "enrolling"
	PhaseConnected   Phase = "connected"
	PhaseUnreachable Phase = "unreachable"
	PhaseRefused     Phase = "refused" // the broker answers, but does not accept the node as a member
)

// Status is shown by hostler-agent status. The running agent keeps it in a file that only root can
// read.
type Status struct {
	Version            string          `json:"version"`
	PID                int             `json:"pid"`
	UpdatedAt          time.Time       `json:"updated_at"`
	Phase              Phase           `json:"phase"`
	Problem            *Problem        `json:"problem,omitempty"`
	NodeID             string          `json:"node_id,omitempty"`
	Epoch              int64           `json:"node_epoch,omitempty"`
	Broker             string          `json:"broker,omitempty"`
	LastContact        time.Time       `json:"last_contact,omitzero"`
	ClockOffsetSeconds float64         `json:"clock_offset_seconds"` // offset of the broker's clock from this node's
	CertificateUntil   time.Time       `json:"certificate_until,omitzero"`
	TrustVersion       int64           `json:"trust_version,omitempty"`
	Allow              string          `json:"allow"`
	Drained            bool            `json:"drained"`
	Allocations        []string        `json:"allocations"`
	Running            []RunningStatus `json:"running"`
	Unreported         int             `json:"unreported"` // results not yet acknowledged by the broker
	RootFreeBytes      int64           `json:"root_free_bytes"`
	LedgerReserved     bool            `json:"ledger_reserved"`
	StateForms         []int           `json:"state_forms"` // of ledger, configuration, identity and updates
}

// Problem is the present problem.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// RunningStatus is a task that was accepted and has not ended.
type RunningStatus struct {
	TaskID    string    `json:"task_id"`
	Type      string    `json:"type"`
	StartedAt time.Time `json:"started_at,omitzero"` // unset: waits for its lane
	Step      string    `json:"step,omitempty"`
	Percent   int       `json:"percent"`
}

func problemOf(err error) *Problem {
	code := taskcatalog.CodeOf(err, uplink.CodeUnreachable)
	if r, ok := uplink.RefusalOf(err); ok {
		code = r.Code
	}
	return &Problem{Code: string(code), Message: taskcatalog.Clean(err.Error(), taskcatalog.MaxText)}
}

// publish changes the status and writes the status file. A failed write does not stop the agent.
func (a *Agent) publish(change func(*Status)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.status
	change(s)
	s.UpdatedAt, s.Running = a.Now().UTC(), []RunningStatus{}
	for _, r := range a.running {
		now := r.snapshot(a.Now())
		s.Running = append(s.Running, RunningStatus{
			TaskID: r.task.TaskID, Type: r.typ.ID(), StartedAt: r.started,
			Step: now.CurrentStepName, Percent: now.StepPercent,
		})
	}
	slices.SortFunc(s.Running, func(x, y RunningStatus) int { return strings.Compare(x.TaskID, y.TaskID) })
	s.Drained, s.LedgerReserved = a.ledger.Drained(), a.ledger.Reserved
	s.Allocations, _ = a.allocations()
	s.StateForms, _ = a.forms()
	if waiting, err := a.ledger.Unreported(); err == nil {
		s.Unreported = len(waiting)
	}
	if space, err := a.Machine.Space("/"); err == nil {
		s.RootFreeBytes = space.Free
	}
	a.Notify("STATUS=" + s.line())
	if err := writeStatus(a.StatusFile, s); err != nil {
		a.Log.Debug("cannot write the status file: " + err.Error())
	}
}

// line is the status in one line, for systemctl status.
func (s *Status) line() string {
	line := string(s.Phase)
	if s.NodeID != "" {
		line += " as " + s.NodeID
	}
	if n := len(s.Running); n > 0 {
		line += fmt.Sprintf(", %d tasks", n)
	}
	if s.Problem != nil {
		line += ": " + s.Problem.Message
	}
	return taskcatalog.Clean(line, 400)
}

func writeStatus(name string, s *Status) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	temp := name + ".new"
	if err := os.WriteFile(temp, raw, 0o600); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return os.Rename(temp, name)
}

// CodeNotRunning is the code of a status that no running agent updates.
const CodeNotRunning taskcatalog.Code = "agent_not_running"

// ReadStatus reads the status file of the running agent. Errors have CodeNotRunning.
func ReadStatus(name string) (*Status, error) {
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, taskcatalog.Errorf(CodeNotRunning, "no agent has written %s (systemctl start hostler-agent)", name)
	}
	if err != nil {
		return nil, taskcatalog.Errorf(CodeNotRunning, "cannot read status: %v (run it as root)", err)
	}
	s := new(Status)
	// The running agent may be newer than the reader, and write more fields.
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, taskcatalog.Errorf(CodeNotRunning, "cannot read status %s: %v", name, err)
	}
	return s, nil
}

// stale is the age from which a status is stale: a healthy agent polls more often.
const stale = 2 * uplink.MaxPause

// Judge returns what is wrong with an agent of this status, or nil.
func (s *Status) Judge(now time.Time) error {
	switch age := now.Sub(s.UpdatedAt).Round(time.Second); {
	case age > stale:
		return taskcatalog.Errorf(CodeNotRunning, "the agent has written no status for %s (systemctl status hostler-agent)", age)
	case s.Problem != nil:
		return taskcatalog.Errorf(taskcatalog.Code(s.Problem.Code), "%s", s.Problem.Message)
	case s.Phase != PhaseConnected:
		return taskcatalog.Errorf(CodeNotRunning, "the agent is %s", s.Phase)
	}
	return nil
}
